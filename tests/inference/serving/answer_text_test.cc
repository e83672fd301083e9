#include "inference/server/answer_text.h"

#include <gtest/gtest.h>

#include <set>

namespace terrace::inference {
namespace {

// Token i is the i-th piece.
class Pieces final : public tokenizer::Tokenizer {
 public:
  explicit Pieces(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  std::vector<Token> encode(std::string_view, const tokenizer::EncodeOptions&) const override {
    return {};
  }
  std::string decode(std::span<const Token> ids, bool special) const override {
    return std::string(piece(ids[0], special));
  }
  std::string_view piece(Token id, bool) const override {
    return pieces_[static_cast<std::size_t>(id)];
  }
  std::size_t size() const override { return pieces_.size(); }
  std::optional<Token> bos() const override { return std::nullopt; }
  bool adds_bos() const override { return false; }
  const std::set<Token>& stop_tokens() const override { return stop_tokens_; }

 private:
  std::vector<std::string> pieces_;
  std::set<Token> stop_tokens_;
};

// What is given out piece by piece, with "|" in between, and "." at a stop.
std::string stream(std::vector<std::string> pieces, std::vector<std::string> stops) {
  const Pieces tokenizer(pieces);
  AnswerText text(tokenizer, std::move(stops));
  std::string all;
  for (std::size_t i = 0; i < pieces.size() && !text.stopped(); ++i)
    all += text.add(static_cast<Token>(i)) + "|";
  all += text.finish();
  return all + (text.stopped() ? "." : "");
}

TEST(AnswerText, HoldsBackWhatMayBeAStopText) {
  EXPECT_EQ(stream({"ab", "c", "d"}, {"bcx"}), "a||bcd|");
  EXPECT_EQ(stream({"ab", "c", "x", "d"}, {"bcx"}), "a|||.");
  EXPECT_EQ(stream({"ab", "c"}, {"bcx"}), "a||bc");
  EXPECT_EQ(stream({"aSTOPb"}, {"STOP"}), "a|.");
  EXPECT_EQ(stream({"S", "T", "S", "T", "O", "P"}, {"STOP"}), "||ST||||.");
  EXPECT_EQ(stream({"xyz"}, {"z", "yz"}), "x|.");
  EXPECT_EQ(stream({"a", "b"}, {}), "a|b|");
}

TEST(AnswerText, IsAlwaysValidUtf8) {
  const std::string euro = "\xE2\x82\xAC", bad = "\xEF\xBF\xBD";
  EXPECT_EQ(stream({euro.substr(0, 1), euro.substr(1)}, {}), "|" + euro + "|");
  EXPECT_EQ(stream({"a" + euro.substr(0, 2)}, {}), "a|" + bad);
  EXPECT_EQ(stream({"\xE2\x82", "x"}, {}), "|" + bad + "x|");
  EXPECT_EQ(stream({"\xFF\x80"}, {}), bad + bad + "|");
  EXPECT_EQ(stream({"\xC0\xAF"}, {}), bad + bad + "|");            // overlong
  EXPECT_EQ(stream({"\xED\xA0\x80"}, {}), bad + bad + bad + "|");  // a surrogate
  EXPECT_EQ(stream({"\xF4\x90\x80\x80"}, {}), bad + bad + bad + bad + "|");
  EXPECT_EQ(stream({"\xF0\x9F\x98", "\x80"}, {"\xF0\x9F\x98\x80"}), "||.");
}

TEST(AnswerText, CountsCharacters) {
  EXPECT_EQ(count_characters("a\xE2\x82\xAC\xF0\x9F\x98\x80"), 3u);
}

}  // namespace
}  // namespace terrace::inference
