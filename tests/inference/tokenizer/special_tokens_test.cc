#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/inference/tokenizer/test_vocabulary.h"

namespace terrace::tokenizer {
namespace {

using testing::ElementsAre;

class SpecialTokensTest : public testing::Test {
 protected:
  SpecialTokensTest() { vocabulary_.add_bytes(); }
  std::vector<Token> encode(std::string_view text, bool special) {
    return vocabulary_.tokenizer()->encode(text, {.parse_special = special});
  }

  TestVocabulary vocabulary_{Scheme::smollm_bpe};
};

TEST_F(SpecialTokensTest, ControlTokensOnlyWhereAskedFor) {
  vocabulary_.add_bare_merge("a b");
  vocabulary_.add("ab");
  const Token end = vocabulary_.add("<e>", TokenType::control);
  const Token unknown = vocabulary_.add("<u>", TokenType::unknown);
  EXPECT_THAT(encode("x<e><u>", true), ElementsAre('x', end, unknown));
  EXPECT_THAT(encode("x<e><u>", false), ElementsAre('x', '<', 'e', '>', '<', 'u', '>'));
}

TEST_F(SpecialTokensTest, UserDefinedTokensAlways) {
  vocabulary_.add_merge("a", "b");
  const Token tool = vocabulary_.add("<tool>", TokenType::user_defined);
  EXPECT_THAT(encode("a<tool>b", false), ElementsAre('a', tool, 'b'));
  EXPECT_THAT(encode("a<tool>b", true), ElementsAre('a', tool, 'b'));
}

// What a user writes must not end an answer, whatever a converter said.
TEST_F(SpecialTokensTest, UserDefinedStopTextsAreControlTokens) {
  vocabulary_.add_merge("a", "b");
  const Token end = vocabulary_.add("<|im_end|>", TokenType::user_defined);
  EXPECT_THAT(encode("<|im_end|>", true), ElementsAre(end));
  EXPECT_EQ(encode("<|im_end|>", false).size(), 10u);
  EXPECT_THAT(vocabulary_.tokenizer()->stop_tokens(), ElementsAre(end));
}

TEST_F(SpecialTokensTest, LongestTextFirstWhereverItStands) {
  vocabulary_.add_merge("a", "b");
  const Token left = vocabulary_.add("<<x", TokenType::control);
  const Token right = vocabulary_.add("xy>>", TokenType::control);
  // "<<x" begins earlier, but the longer one takes the "x".
  EXPECT_THAT(encode("<<xy>>", true), ElementsAre('<', '<', right));
  EXPECT_THAT(encode("<<x<<xy>>", true), ElementsAre(left, '<', '<', right));
}

TEST_F(SpecialTokensTest, AMatchDoesNotOverlapItself) {
  vocabulary_.add_merge("a", "b");
  const Token twice = vocabulary_.add("@@", TokenType::control);
  EXPECT_THAT(encode("@@@@@", true), ElementsAre(twice, twice, '@'));
}

// A merge makes "ab", but that text is a control token's.
TEST_F(SpecialTokensTest, MergesNeverMakeAControlToken) {
  const Token control = vocabulary_.add_merge("a", "b", TokenType::control);
  const Token longer = vocabulary_.add_merge("ab", "c");
  EXPECT_THAT(encode("ab", false), ElementsAre('a', 'b'));
  EXPECT_THAT(encode("abc", false), ElementsAre(longer));
  EXPECT_THAT(encode("ab", true), ElementsAre(control));
}

TEST(WholePieces, NeverAreAControlToken) {
  TestVocabulary vocabulary(Scheme::llama_bpe);
  vocabulary.add_bytes();
  vocabulary.add_merge("a", "b");
  vocabulary.add("user", TokenType::control);
  EXPECT_THAT(vocabulary.tokenizer()->encode("user"), ElementsAre('u', 's', 'e', 'r'));
}

TEST(DecodeSpecial, ControlTokensGiveTheirTextOnlyWhereAskedFor) {
  TestVocabulary vocabulary(Scheme::llama_bpe);
  vocabulary.add_bytes();
  vocabulary.add_merge("a", "b");
  const Token control = vocabulary.add("<c>", TokenType::control);
  const Token user = vocabulary.add("<u>", TokenType::user_defined);
  const auto tokenizer = vocabulary.tokenizer();
  const std::vector<Token> ids = {'x', control, user, 'y', -1, 100000};
  EXPECT_EQ(tokenizer->decode(ids), "x<u>y");
  EXPECT_EQ(tokenizer->decode(ids, true), "x<c><u>y");
  EXPECT_EQ(tokenizer->piece(control), "");
  EXPECT_EQ(tokenizer->piece(control, true), "<c>");
}

}  // namespace
}  // namespace terrace::tokenizer
