#include "bench/codec.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "bench/bare_file.h"
#include "bench/environment.h"
#include "bench/samples.h"
#include "config/daemon_config.h"
#include "core/bytes.h"
#include "core/checksum.h"
#include "inference/model/private_kv.h"
#include "inference/tokenizer/tokenizer.h"
#include "storage/codec/payload_codec.h"
#include "storage/disk/disk_options.h"
#include "storage/disk/extent.h"
#include "tests/support/temp_dir.h"

namespace terrace::bench {

namespace {

using namespace terrace::inference;
using Steady = std::chrono::steady_clock;

constexpr std::size_t quick_blocks = 4;
constexpr std::size_t disk_blocks = 256;  // read for the rate of the disk

constexpr const char* own_text =
    "A river that runs down from the mountains does not keep its water where it falls. It passes "
    "through lakes and ponds, each larger and slower than the one above, and people have built "
    "terraces along its banks for as long as they have grown rice. The highest terrace is small "
    "and "
    "close to the spring; whoever stands there has water at once. The lower ones are wide, and "
    "what "
    "the upper ones cannot hold comes to rest in them. Nothing is carried up again that is not "
    "wanted there, and nothing is let go that a lower field could still use.\n\n"
    "A machine's memory is built the same way, though nobody planted it. Next to the units that "
    "multiply there are registers, then caches of a few kilobytes, then caches of some megabytes, "
    "then main memory, then disks, and at last the disks of other machines. Each step down is "
    "ten or a hundred times larger and ten or a hundred times slower. The question is always the "
    "same: what will be needed next, and how far up should it wait?\n\n"
    "Consider a program that answers questions about a long contract. Every question begins with "
    "the same forty pages. A language model reads them token by token, and for every token it "
    "computes two vectors a layer: a key, by which later tokens will find it, and a value, which "
    "is "
    "what they will take away. Once the pages were read, these vectors never change, since each "
    "depends only on what came before it. To throw them away after the first answer and compute "
    "them again for the second is like carrying the river back up the mountain in buckets.\n\n"
    "So they are kept. The first few hundred tokens of a system prompt are needed by every "
    "conversation and stay at the top. A conversation that paused for an hour sinks to main "
    "memory, "
    "one that paused for a day to the disk. When its next question comes, the vectors are brought "
    "back up, checked against the sum that was taken when they were stored, and the model goes on "
    "as "
    "if it had never stopped. If a single bit is not as it was, the block is dropped and computed "
    "again: a wrong answer costs more than a slow one.\n\n"
    "What does it cost to keep a token? The small model that people try first has thirty layers "
    "and "
    "three heads for keys and values, each of sixty-four numbers of two bytes. That is some "
    "twenty-two kilobytes a token, three quarters of a megabyte for a block of thirty-two tokens, "
    "and thirty-three megabytes for a prompt of fifteen hundred. A larger model takes six times as "
    "much. Disks are cheap, but the way from the disk is narrow, and so one asks whether the "
    "numbers "
    "could be made smaller on the way. Their exponents are much alike, since the values of one "
    "head "
    "live in the same range; their mantissas are noise, and noise cannot be made smaller by "
    "anyone.";

struct KvBlocks {
  std::vector<std::vector<std::byte>> blocks;
  std::size_t element_bytes = 0;
  std::string kv_dtype;
};

Result<KvBlocks> compute_blocks(const CodecOptions& options, std::size_t most) {
  auto file = gguf::File::open(options.model_path);
  if (!file) return error(file.error());
  auto tokenizer = tokenizer::Tokenizer::load(**file);
  if (!tokenizer) return error(tokenizer.error());
  std::string text = own_text;
  if (!options.text_file.empty()) {
    std::ifstream file_of_text(options.text_file);
    text.assign(std::istreambuf_iterator<char>(file_of_text), {});
    if (!file_of_text) return error(StatusCode::io_error, "could not read " + options.text_file);
  }
  auto model = Llama::load(**file, options.model);
  if (!model) return error(model.error());
  const KvGeometry geometry = (*model)->kv_geometry();
  std::vector<Token> tokens = (*tokenizer)->encode(text);
  const std::size_t count =
      std::min({most, tokens.size() / geometry.block_tokens,
                std::size_t{(*model)->config().context_length} / geometry.block_tokens});
  if (count == 0)
    return error(
        StatusCode::invalid_argument,
        "the text does not fill a block of " + std::to_string(geometry.block_tokens) + " tokens");
  tokens.resize(count * geometry.block_tokens);
  PrivateKv kv(geometry);
  if (Status status = kv.reserve(tokens.size()); !status.ok()) return error(std::move(status));
  const SequenceStep step{.tokens = tokens, .first_position = 0, .blocks = kv.blocks()};
  std::vector<float> logits((*model)->config().vocabulary);
  if (Status status = (*model)->forward({&step, 1}, logits); !status.ok())
    return error(std::move(status));
  KvBlocks kv_blocks;
  kv_blocks.kv_dtype = to_string(geometry.dtype);
  kv_blocks.element_bytes = storage::element_bytes_of(kv_blocks.kv_dtype);
  for (std::size_t i = 0; i < count; ++i)
    kv_blocks.blocks.emplace_back(kv.blocks()[i], kv.blocks()[i] + geometry.block_bytes());
  return kv_blocks;
}

struct CodecFigures {
  Codec codec = Codec::raw;
  double stored_fraction = 1;  // of the payload, whole pages and the header included
  Samples encode_GBps, decode_GBps;
  Samples load_GBps;  // decoding and all checksums that a load takes
  // Of payload that a disk gives with the daemon's codec threads behind it.
  double from_disk_GBps(double disk_GBps) const {
    return std::min(disk_GBps / stored_fraction,
                    load_GBps.median() * storage::DiskOptions().codec_threads);
  }
};

double gigabytes_per_s(std::size_t bytes, Steady::time_point begin) {
  return static_cast<double>(bytes) / std::chrono::duration<double>(Steady::now() - begin).count() /
         1e9;
}

// One round over all blocks; corruption if a block does not come back as it was.
Status measure_once(storage::PayloadCodec& codec, const KvBlocks& kv, CodecFigures& figures) {
  const std::size_t bytes = kv.blocks[0].size(), all = bytes * kv.blocks.size();
  std::vector<std::vector<std::byte>> stored(kv.blocks.size(), std::vector<std::byte>(bytes));
  std::vector<std::size_t> lengths(kv.blocks.size());
  std::vector<std::vector<std::byte>> back(kv.blocks.size(), std::vector<std::byte>(bytes));
  auto begin = Steady::now();
  for (std::size_t i = 0; i < kv.blocks.size(); ++i) {
    const auto encoded = codec.encode(kv.blocks[i], kv.element_bytes, stored[i]);
    if (encoded) {
      lengths[i] = *encoded;
    } else {  // stored raw then
      std::memcpy(stored[i].data(), kv.blocks[i].data(), bytes);
      lengths[i] = bytes;
    }
  }
  figures.encode_GBps.add(gigabytes_per_s(all, begin));
  const auto decode = [&](std::size_t i) {
    const auto from = std::span(stored[i]).first(lengths[i]);
    if (lengths[i] < bytes) return codec.decode(from, back[i]);
    std::memcpy(back[i].data(), from.data(), bytes);
    return Status();
  };
  begin = Steady::now();
  for (std::size_t i = 0; i < kv.blocks.size(); ++i)
    if (Status decoded = decode(i); !decoded.ok()) return decoded;
  figures.decode_GBps.add(gigabytes_per_s(all, begin));
  std::uint64_t sums = 0;
  begin = Steady::now();
  for (std::size_t i = 0; i < kv.blocks.size(); ++i) {
    if (figures.codec == Codec::raw) {  // a load of it goes straight to its place
      sums ^= payload_checksum(stored[i]);
      continue;
    }
    sums ^= payload_checksum(std::span(stored[i]).first(lengths[i]));
    if (Status decoded = decode(i); !decoded.ok()) return decoded;
    sums ^= payload_checksum(back[i]);
  }
  figures.load_GBps.add(gigabytes_per_s(all, begin));
  if (sums == 0) return Status(StatusCode::internal, "all checksums are zero");
  std::size_t taken = 0;
  for (std::size_t i = 0; i < kv.blocks.size(); ++i) {
    if (back[i] != kv.blocks[i])
      return Status(StatusCode::corruption, "a block is not what it was before the codec");
    taken += record_header_bytes + round_up(lengths[i], storage::extent_unit_bytes);
  }
  figures.stored_fraction = static_cast<double>(taken) / static_cast<double>(all);
  return {};
}

double copy_GBps(const KvBlocks& kv) {
  const std::size_t bytes = kv.blocks[0].size();
  std::vector<std::vector<std::byte>> to(kv.blocks.size(), std::vector<std::byte>(bytes));
  const auto begin = Steady::now();
  for (std::size_t i = 0; i < kv.blocks.size(); ++i)
    std::memcpy(to[i].data(), kv.blocks[i].data(), bytes);
  return gigabytes_per_s(bytes * kv.blocks.size(), begin);
}

const char* default_codec() {
  switch (config::DiskOptions().codec) {
    case config::DiskCodec::raw:
      return to_string(Codec::raw);
    case config::DiskCodec::zstd:
      return to_string(Codec::zstd);
    case config::DiskCodec::planes:
      return to_string(Codec::planes);
  }
  return "";
}

}  // namespace

int run_codec(const CodecOptions& options, std::ostream& out, std::ostream& err) {
  const auto fail = [&err](const Status& status) {
    err << "terrace-bench: " << status.message() << std::endl;
    return 1;
  };
  const test_support::TempDir temporary(options.directory.empty()
                                            ? std::filesystem::temp_directory_path()
                                            : std::filesystem::path(options.directory));
  print_environment(out, temporary.path());
  const auto kv = compute_blocks(
      options, options.quick ? std::min(options.blocks, quick_blocks) : options.blocks);
  if (!kv) return fail(kv.error());
  const std::size_t block_bytes = kv->blocks[0].size();
  auto disk = BareFile::create(temporary.path(), round_up(block_bytes, storage::extent_unit_bytes),
                               std::max<std::size_t>(16, disk_blocks * 720 * kib / block_bytes));
  if (!disk) return fail(disk.error());
  out << kv->blocks.size() << " blocks of " << format_bytes(block_bytes) << ", " << kv->kv_dtype
      << ", one thread\n";

  std::vector<CodecFigures> all(3);
  std::vector<std::unique_ptr<storage::PayloadCodec>> codecs;
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    all[i].codec = static_cast<Codec>(i);
    codecs.push_back(storage::make_payload_codec(all[i].codec, options.zstd_level));
  }
  Samples copy, disk_rate;
  for (std::size_t round = 0; round < options.repetitions; ++round) {
    copy.add(copy_GBps(*kv));
    for (std::size_t i = 0; i < all.size(); ++i)
      if (Status status = measure_once(*codecs[i], *kv, all[i]); !status.ok()) return fail(status);
    const auto rate = disk->read_all_GBps();
    if (!rate) return fail(rate.error());
    disk_rate.add(*rate);
  }

  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  const CodecFigures* best = &all[0];
  out << "codec    ratio   of raw on disk   encode GB/s   decode GB/s   from a disk of "
      << std::fixed << std::setprecision(2) << disk_rate.median() << " GB/s\n";
  for (const CodecFigures& one : all) {
    const double loads = one.from_disk_GBps(disk_rate.median());
    if (loads > best->from_disk_GBps(disk_rate.median())) best = &one;
    const double ratio = all[0].stored_fraction / one.stored_fraction;
    out << std::left << std::setw(7) << to_string(one.codec) << std::right << std::setw(7) << ratio
        << std::setw(17) << 1 / ratio << std::setw(14) << one.encode_GBps.median() << std::setw(14)
        << one.decode_GBps.median() << std::setw(12) << loads << " GB/s of payload\n";
    points.push_back({{"name", to_string(one.codec)},
                      {"ratio", ratio},
                      {"encode_GBps", one.encode_GBps.median()},
                      {"decode_GBps", one.decode_GBps.median()},
                      {"load_GBps", one.load_GBps.median()},
                      {"from_disk_GBps", loads}});
  }
  const nlohmann::ordered_json line = {{"bench", "codec"},
                                       {"codecs", points},
                                       {"default", default_codec()},
                                       {"fastest_from_disk", to_string(best->codec)},
                                       {"disk_GBps", disk_rate.median()},
                                       {"memcpy_GBps", copy.median()},
                                       {"kv", kv->kv_dtype},
                                       {"block_bytes", block_bytes},
                                       {"blocks", kv->blocks.size()},
                                       {"zstd_level", options.zstd_level},
                                       {"debug_build", is_debug_build()}};
  out << line.dump() << std::endl;
  return 0;
}

}  // namespace terrace::bench
