#include "core/space_file.h"

#include <algorithm>
#include <cstring>

#include "core/bytes.h"
#include "core/checksum.h"

namespace terrace {

namespace {

constexpr std::string_view magic = "TERRSPC\n";
constexpr std::size_t checksum_bytes = 8;

template <typename T>
void append(std::vector<std::byte>& out, T value) {
  const std::size_t at = out.size();
  out.resize(at + sizeof value);
  store_le(out.data() + at, value);
}

void append_bytes(std::vector<std::byte>& out, const void* from, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(from);
  out.insert(out.end(), first, first + bytes);
}

// Takes fields off the front; after the end was reached everything is zero and ok() false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  std::string_view bytes(std::size_t count) {
    if (count > left_.size()) {
      ok_ = false;
      left_ = {};
      return {};
    }
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  template <typename T>
  T number() {
    const std::string_view taken = bytes(sizeof(T));
    return taken.empty() ? T{} : load_le<T>(taken.data());
  }
  std::string text() { return std::string(bytes(number<std::uint16_t>())); }
  bool ok() const { return ok_; }

 private:
  std::string_view left_;
  bool ok_ = true;
};

}  // namespace

std::vector<std::byte> encode_space(const SpaceDescriptor& space) {
  std::vector<std::byte> out;
  append_bytes(out, magic.data(), magic.size());
  append(out, space_file_version);
  append_bytes(out, space.model_digest.data(), space.model_digest.size());
  append(out, space.block_tokens);
  append(out, space.block_bytes);
  append(out, space.tensor_parallel_rank);
  append(out, space.tensor_parallel_size);
  for (const std::string* text :
       {&space.numerics_id, &space.kv_dtype, &space.layout_id, &space.adapter,
        &space.adapter_revision, &space.tenant, &space.label}) {
    append(out, static_cast<std::uint16_t>(text->size()));
    append_bytes(out, text->data(), text->size());
  }
  append(out, xxh3(out));
  return out;
}

Result<SpaceDescriptor> decode_space(std::string_view contents) {
  const auto corrupt = [](const char* message) { return error(StatusCode::corruption, message); };
  if (contents.size() < magic.size() + checksum_bytes || !contents.starts_with(magic))
    return corrupt("not a space file");
  const std::string_view body = contents.substr(0, contents.size() - checksum_bytes);
  if (load_le<std::uint64_t>(body.data() + body.size()) != xxh3(std::as_bytes(std::span(body))))
    return corrupt("the checksum of a space file does not match");
  Reader reader(body.substr(magic.size()));
  if (const auto version = reader.number<std::uint32_t>(); version != space_file_version)
    return error(StatusCode::failed_precondition,
                 "space file of format version " + std::to_string(version) +
                     "; this program reads version " + std::to_string(space_file_version));
  SpaceDescriptor space;
  const std::string_view digest = reader.bytes(space.model_digest.size());
  std::copy(digest.begin(), digest.end(), space.model_digest.begin());
  space.block_tokens = reader.number<std::uint32_t>();
  space.block_bytes = reader.number<std::uint64_t>();
  space.tensor_parallel_rank = reader.number<std::uint32_t>();
  space.tensor_parallel_size = reader.number<std::uint32_t>();
  for (std::string* text : {&space.numerics_id, &space.kv_dtype, &space.layout_id, &space.adapter,
                            &space.adapter_revision, &space.tenant, &space.label})
    *text = reader.text();
  if (!reader.ok() || !space.validate().ok()) return corrupt("a space file makes no sense");
  return space;
}

std::string space_file_name(const SpaceDescriptor& space) {
  return space.digest().hex() + ".space";
}

}  // namespace terrace
