#include "inference/tokenizer/tokenizer.h"

#include <utility>

#include "inference/tokenizer/bpe_encoder.h"
#include "inference/tokenizer/sentencepiece_encoder.h"
#include "inference/tokenizer/special_tokens.h"
#include "inference/tokenizer/token_table.h"
#include "inference/tokenizer/vocabulary.h"
#include "inference/tokenizer/vocabulary_tokenizer.h"

namespace terrace::tokenizer {
namespace {

class VocabularyTokenizer : public Tokenizer {
 public:
  VocabularyTokenizer(const Vocabulary& vocabulary, std::unique_ptr<const TokenTable> table,
                      std::unique_ptr<const PlainEncoder> encoder)
      : table_(std::move(table)),
        encoder_(std::move(encoder)),
        specials_(*table_),
        bos_(vocabulary.bos),
        adds_bos_(vocabulary.adds_bos),
        adds_space_prefix_(vocabulary.adds_space_prefix) {
    for (const auto& id : {vocabulary.eos, vocabulary.eot, vocabulary.eom}) {
      if (id) stop_tokens_.insert(*id);
    }
    for (Token id = 0; table_->contains(id); ++id) {
      if (!table_->is_plain(id) && is_stop_text(table_->bytes(id))) stop_tokens_.insert(id);
    }
  }

  std::vector<Token> encode(std::string_view text, const EncodeOptions& options) const override {
    std::vector<Token> ids;
    bool opens = true;
    for (const Fragment& fragment : specials_.split(text, options.parse_special)) {
      if (fragment.special) {
        ids.push_back(*fragment.special);
        opens = true;
      } else {
        encoder_->encode(fragment.text, opens, ids);
        opens = false;
      }
    }
    return ids;
  }

  std::string decode(std::span<const Token> ids, bool special) const override {
    std::string text;
    bool at_front = adds_space_prefix_;
    for (const Token id : ids) {
      std::string_view bytes = piece(id, special);
      if (at_front && table_->contains(id) && table_->is_plain(id)) {
        if (bytes.starts_with(' ')) bytes.remove_prefix(1);
        at_front = false;
      }
      text.append(bytes);
    }
    return text;
  }

  std::string_view piece(Token id, bool special) const override {
    if (!table_->contains(id)) return {};
    const TokenType type = table_->type(id);
    const bool silent = type == TokenType::control || type == TokenType::unknown;
    return silent && !special ? std::string_view() : table_->bytes(id);
  }

  std::size_t size() const override { return table_->size(); }
  std::optional<Token> bos() const override { return bos_; }
  bool adds_bos() const override { return adds_bos_; }
  const std::set<Token>& stop_tokens() const override { return stop_tokens_; }

 private:
  const std::unique_ptr<const TokenTable> table_;
  const std::unique_ptr<const PlainEncoder> encoder_;  // refers to *table_
  const SpecialTokens specials_;                       // likewise
  const std::optional<Token> bos_;
  const bool adds_bos_;
  const bool adds_space_prefix_;
  std::set<Token> stop_tokens_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const Vocabulary& vocabulary) {
  auto created = TokenTable::create(vocabulary);
  if (!created) return error(created.error());
  auto table = std::make_unique<const TokenTable>(std::move(*created));
  std::unique_ptr<const PlainEncoder> encoder;
  if (vocabulary.scheme == Scheme::sentencepiece) {
    encoder = std::make_unique<SentencePieceEncoder>(vocabulary, *table);
  } else {
    auto bpe = BpeEncoder::create(vocabulary, *table);
    if (!bpe) return error(bpe.error());
    encoder = std::move(*bpe);
  }
  return std::make_unique<VocabularyTokenizer>(vocabulary, std::move(table), std::move(encoder));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const gguf::File& file) {
  const auto vocabulary = read_vocabulary(file);
  if (!vocabulary) return error(vocabulary.error().with_context(file.path()));
  auto tokenizer = make_tokenizer(*vocabulary);
  if (!tokenizer) return error(tokenizer.error().with_context(file.path()));
  return tokenizer;
}

}  // namespace terrace::tokenizer
