// A megabyte of what has no good places to cut. A quadratic encoder takes longer than ctest waits.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/inference/tokenizer/golden_files.h"
#include "tests/inference/tokenizer/test_vocabulary.h"

namespace terrace::tokenizer {
namespace {

constexpr std::size_t kBytes = 1 << 20;

const std::string kUnits[] = {
    "a",    "ab",        " ",          "\n", " \n", "7", "!", "'", "\xf0\x9f\x99\x82",
    "\xff", "<|im_end|", "<|im_end|>",
};

std::string repeated(const std::string& unit) {
  std::string text;
  while (text.size() + unit.size() <= kBytes) text += unit;
  return text;
}

void expect_all_encode(const Tokenizer& tokenizer, bool complete) {
  for (const std::string& unit : kUnits) {
    const std::string text = repeated(unit);
    const auto ids = tokenizer.encode(text, {.parse_special = true});
    if (complete) {
      EXPECT_TRUE(tokenizer.decode(ids, true) == text) << unit;
    }
  }
}

// Every unit merges up to 64 copies of itself: as many levels as long runs have in real ones.
TestVocabulary doubling(Scheme scheme) {
  const std::string mark = "\xe2\x96\x81";
  const bool sentencepiece = scheme == Scheme::sentencepiece;
  TestVocabulary vocabulary(scheme);
  vocabulary.add_bytes();
  for (const std::string unit : {"a", "ab", " ", "\n", "!", "\xf0\x9f\x99\x82"}) {
    std::string text = unit.substr(0, 1);
    if (sentencepiece) {
      text = unit == " " ? mark : unit;
      if (unit != "ab") vocabulary.add(text, TokenType::normal, -1);
    } else {
      for (const char c : unit.substr(1)) {
        vocabulary.add_merge(text, std::string(1, c));
        text.push_back(c);
      }
    }
    for (int level = 0; level < 6; ++level) {
      if (sentencepiece) {
        vocabulary.add(text + text, TokenType::normal, static_cast<float>(level));
      } else {
        vocabulary.add_merge(text, text);
      }
      text += text;
    }
  }
  vocabulary.add("<|im_end|>", TokenType::control);
  return vocabulary;
}

TEST(LongText, Llama3) { expect_all_encode(*doubling(Scheme::llama_bpe).tokenizer(), true); }
TEST(LongText, SmolLm) { expect_all_encode(*doubling(Scheme::smollm_bpe).tokenizer(), true); }
TEST(LongText, SentencePiece) {
  expect_all_encode(*doubling(Scheme::sentencepiece).tokenizer(), true);
}

// Tokens with spaces inside: the text is one piece.
TEST(LongText, SentencePieceWithTokensThatSpanWords) {
  TestVocabulary vocabulary = doubling(Scheme::sentencepiece);
  vocabulary.add(
      "a\xe2\x96\x81"
      "a");
  expect_all_encode(*vocabulary.tokenizer(), true);
}

TEST(LongText, RealVocabularies) {
  int found = 0;
  for (const std::string& path :
       {golden_path("vocab/ggml-vocab-llama-bpe.gguf"),
        golden_path("vocab/ggml-vocab-llama-spm.gguf"), demo_model_path()}) {
    if (!std::filesystem::exists(path)) continue;
    ++found;
    // The demo model's vocabulary lacks tokens for some bytes.
    expect_all_encode(**Tokenizer::load(**gguf::File::open(path)), path != demo_model_path());
  }
  if (found == 0) GTEST_SKIP() << "there are no vocabularies in " << golden_path("vocab");
}

}  // namespace
}  // namespace terrace::tokenizer
