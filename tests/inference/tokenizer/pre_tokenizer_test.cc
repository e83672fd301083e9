#include "inference/tokenizer/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/inference/tokenizer/test_vocabulary.h"

namespace terrace::tokenizer {
namespace {

using testing::ElementsAre;

std::vector<std::string_view> llama3(std::string_view text) {
  std::vector<std::string_view> pieces;
  pre_tokenize_llama3(text, pieces);
  return pieces;
}

std::vector<std::string_view> smollm(std::string_view text) {
  std::vector<std::string_view> pieces;
  pre_tokenize_smollm(text, pieces);
  return pieces;
}

TEST(Llama3Pieces, WordsTakeOneCharacterInFront) {
  EXPECT_THAT(llama3("Hello, big world_wide"),
              ElementsAre("Hello", ",", " big", " world", "_wide"));
  EXPECT_THAT(llama3("\tx\n\xc2\xa0y"), ElementsAre("\tx", "\n", "\xc2\xa0y"));
}

TEST(Llama3Pieces, ContractionsInAnyCase) {
  EXPECT_THAT(llama3("it's WE'LL you'Re"), ElementsAre("it", "'s", " WE", "'LL", " you", "'Re"));
  EXPECT_THAT(llama3("'sam 'xam"), ElementsAre("'s", "am", " '", "xam"));
}

TEST(Llama3Pieces, DigitsByThrees) {
  EXPECT_THAT(llama3("1234567 89"), ElementsAre("123", "456", "7", " ", "89"));
  // Four Arabic digits and a fraction are numbers too.
  EXPECT_THAT(llama3("\xd9\xa3\xd9\xa4\xd9\xa5\xd9\xa6\xc2\xbd"),
              ElementsAre("\xd9\xa3\xd9\xa4\xd9\xa5", "\xd9\xa6\xc2\xbd"));
}

TEST(Llama3Pieces, MarksTakeNewlines) {
  EXPECT_THAT(llama3("a ...\n\nb"), ElementsAre("a", " ...\n\n", "b"));
}

TEST(Llama3Pieces, SpacesEndBehindTheirLastNewline) {
  EXPECT_THAT(llama3("a \n \n  b"), ElementsAre("a", " \n \n", " ", " b"));
  EXPECT_THAT(llama3("a   "), ElementsAre("a", "   "));
  EXPECT_THAT(llama3("   7"), ElementsAre("  ", " ", "7"));
}

TEST(SmolLmPieces, DigitsOneByOneAndWhatIsBetweenByItself) {
  EXPECT_THAT(smollm("ab12 c"), ElementsAre("ab", "1", "2", " c"));
  // The space in front of a digit ends its fragment: it stays whole there.
  EXPECT_THAT(smollm("a  1"), ElementsAre("a", "  ", "1"));
  EXPECT_THAT(smollm("a  b"), ElementsAre("a", " ", " b"));
}

TEST(SmolLmPieces, ContractionsInLowerCaseOnly) {
  EXPECT_THAT(smollm("it's IT'S"), ElementsAre("it", "'s", " IT", "'", "S"));
}

TEST(SmolLmPieces, OnlySpacesGoInFrontOfWords) {
  EXPECT_THAT(smollm("\tx !!y\n\nz"), ElementsAre("\t", "x", " !!", "y", "\n", "\n", "z"));
}

TEST(Pieces, BytesThatBeginNoCharacterAreMarks) {
  EXPECT_THAT(llama3("a\xff\xc3 b"), ElementsAre("a", "\xff\xc3", " b"));
  EXPECT_THAT(smollm("a \xf0\x9f"
                     "b"),
              ElementsAre("a", " \xf0\x9f", "b"));
}

TEST(Pieces, AreTheWholeTextInOrder) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 400; ++round) {
    const std::string text = round % 2 == 0 ? random_text(random, 40) : random_bytes(random, 60);
    for (const auto& pieces : {llama3(text), smollm(text)}) {
      std::string joined;
      for (const std::string_view piece : pieces) {
        EXPECT_FALSE(piece.empty());
        joined += piece;
      }
      EXPECT_EQ(joined, text);
    }
  }
}

}  // namespace
}  // namespace terrace::tokenizer
