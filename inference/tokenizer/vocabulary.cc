#include "inference/tokenizer/vocabulary.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "inference/tokenizer/quoted.h"

namespace terrace::tokenizer {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";
// Ids are int32, and bytes that have no token take the ids behind the last token.
constexpr std::size_t kMaxTokens = std::numeric_limits<Token>::max() - 256;

std::string key_of(std::string_view name) { return std::string(kPrefix).append(name); }

tl::unexpected<Status> malformed(std::string_view name, std::string_view what) {
  return error(StatusCode::invalid_argument, key_of(name).append(" ").append(what));
}

Result<Scheme> read_scheme(const gguf::File& file) {
  const auto model = file.text(key_of("model"));
  if (!model) return malformed("model", "is missing: the file has no tokenizer");
  if (*model == "llama") return Scheme::sentencepiece;
  if (*model != "gpt2") {
    return error(StatusCode::unimplemented,
                 "tokenizer model " + quoted(*model) + " is not known (known: gpt2, llama)");
  }
  const std::string_view pre = file.text(key_of("pre")).value_or("");
  if (pre == "llama-bpe" || pre == "llama3") return Scheme::llama_bpe;
  if (pre == "smollm") return Scheme::smollm_bpe;
  return error(StatusCode::unimplemented,
               "pre-tokenizer " + quoted(pre) + " is not known (known: llama-bpe, llama3, smollm)");
}

Status read_types(const gguf::File& file, Vocabulary& vocabulary) {
  const std::size_t size = vocabulary.texts.size();
  if (!file.has(key_of("token_type")) && vocabulary.scheme != Scheme::sentencepiece) {
    vocabulary.types.assign(size, TokenType::normal);
    return {};
  }
  const auto types = file.unsigned_integers(key_of("token_type"));
  if (types.size() != size) {
    return malformed("token_type", "has " + std::to_string(types.size()) + " entries for " +
                                       std::to_string(size) + " tokens")
        .value();
  }
  vocabulary.types.reserve(size);
  for (std::size_t id = 0; id < size; ++id) {
    if (types[id] < 1 || types[id] > 6) {
      return malformed("token_type", "of token " + std::to_string(id) + " is " +
                                         std::to_string(types[id]) + ", expected 1 to 6")
          .value();
    }
    vocabulary.types.push_back(static_cast<TokenType>(types[id]));
  }
  return {};
}

Status read_scores(const gguf::File& file, Vocabulary& vocabulary) {
  const auto scores = file.numbers(key_of("scores"));
  if (scores.size() != vocabulary.texts.size()) {
    return malformed("scores", "has " + std::to_string(scores.size()) + " entries for " +
                                   std::to_string(vocabulary.texts.size()) + " tokens")
        .value();
  }
  vocabulary.scores.reserve(scores.size());
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (std::isnan(scores[id])) {
      return malformed("scores", "of token " + std::to_string(id) + " is not a number").value();
    }
    vocabulary.scores.push_back(static_cast<float>(scores[id]));
  }
  return {};
}

Result<std::optional<Token>> read_id(const gguf::File& file, std::string_view name,
                                     std::size_t size) {
  if (!file.has(key_of(name))) return std::nullopt;
  const auto id = file.unsigned_integer(key_of(name));
  if (!id) return malformed(name, "is no token id");
  // Writers say "none" with -1 in 32 bits.
  if (*id == std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  if (*id >= size) {
    return malformed(name, "is " + std::to_string(*id) + " of " + std::to_string(size) + " tokens");
  }
  return static_cast<Token>(*id);
}

Result<bool> read_flag(const gguf::File& file, std::string_view name, bool absent) {
  if (!file.has(key_of(name))) return absent;
  const auto flag = file.boolean(key_of(name));
  if (!flag) return malformed(name, "is not true or false");
  return *flag;
}

}  // namespace

Result<Vocabulary> read_vocabulary(const gguf::File& file) {
  Vocabulary vocabulary;
  const auto scheme = read_scheme(file);
  if (!scheme) return error(scheme.error());
  vocabulary.scheme = *scheme;
  const bool sentencepiece = *scheme == Scheme::sentencepiece;

  vocabulary.texts = file.texts(key_of("tokens"));
  const std::size_t size = vocabulary.texts.size();
  if (size == 0) return malformed("tokens", "is missing or empty");
  if (size > kMaxTokens) return malformed("tokens", "has more entries than there are token ids");
  if (Status status = read_types(file, vocabulary); !status.ok()) return error(status);
  if (sentencepiece) {
    if (Status status = read_scores(file, vocabulary); !status.ok()) return error(status);
  } else {
    vocabulary.merges = file.texts(key_of("merges"));
    if (vocabulary.merges.empty()) return malformed("merges", "is missing or empty");
  }

  const struct {
    std::string_view name;
    std::optional<Token>& id;
  } ids[] = {{"bos_token_id", vocabulary.bos},
             {"eos_token_id", vocabulary.eos},
             {"eot_token_id", vocabulary.eot},
             {"eom_token_id", vocabulary.eom},
             {"unknown_token_id", vocabulary.unknown}};
  for (const auto& [name, id] : ids) {
    const auto read = read_id(file, name, size);
    if (!read) return error(read.error());
    id = *read;
  }

  const auto adds_bos = read_flag(file, "add_bos_token", *scheme != Scheme::smollm_bpe);
  if (!adds_bos) return error(adds_bos.error());
  vocabulary.adds_bos = *adds_bos && vocabulary.bos.has_value();
  const auto adds_space_prefix = read_flag(file, "add_space_prefix", sentencepiece);
  if (!adds_space_prefix) return error(adds_space_prefix.error());
  vocabulary.adds_space_prefix = *adds_space_prefix;
  return vocabulary;
}

}  // namespace terrace::tokenizer
