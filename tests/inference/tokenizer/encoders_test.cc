// The encoders against slow ones that are plainly right, over random vocabularies and texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "inference/tokenizer/pre_tokenizer.h"
#include "tests/inference/tokenizer/golden_files.h"
#include "tests/inference/tokenizer/test_vocabulary.h"

namespace terrace::tokenizer {
namespace {

using testing::ElementsAre;

// Merges over an alphabet of three letters and the space, so that random texts meet many.
TestVocabulary random_bpe(std::mt19937_64& random, Scheme scheme) {
  TestVocabulary vocabulary(scheme);
  vocabulary.add_bytes();
  std::vector<std::string> texts = {"a", "b", "c", " "};
  std::map<std::string, bool> made;
  while (made.size() < 60) {
    const std::string left = texts[random() % texts.size()];
    const std::string right = texts[random() % texts.size()];
    if (left.size() + right.size() > 12 || !made.emplace(left + right, true).second) continue;
    vocabulary.add_merge(left, right);
    texts.push_back(left + right);
  }
  return vocabulary;
}

std::vector<Token> slow_bpe(const TestVocabulary& vocabulary, std::string_view text,
                            Scheme scheme) {
  std::map<std::string, Token> ids;
  for (std::size_t id = 0; id < vocabulary.texts().size(); ++id) {
    ids.emplace(vocabulary.texts()[id], static_cast<Token>(id));
  }
  std::map<std::string, std::size_t> ranks;
  for (std::size_t i = 0; i < vocabulary.merges().size(); ++i) {
    ranks.emplace(vocabulary.merges()[i], i);
  }
  std::vector<std::string_view> pieces;
  scheme == Scheme::llama_bpe ? pre_tokenize_llama3(text, pieces)
                              : pre_tokenize_smollm(text, pieces);
  std::vector<Token> result;
  for (const std::string_view piece : pieces) {
    if (scheme == Scheme::llama_bpe && ids.contains(mapped(piece))) {
      result.push_back(ids[mapped(piece)]);
      continue;
    }
    std::vector<std::string> symbols;
    for (const char byte : piece) symbols.push_back(mapped(static_cast<unsigned char>(byte)));
    for (;;) {
      std::size_t best = symbols.size(), best_rank = ranks.size();
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto found = ranks.find(symbols[i] + " " + symbols[i + 1]);
        if (found != ranks.end() && found->second < best_rank) {
          best = i;
          best_rank = found->second;
        }
      }
      if (best == symbols.size()) break;
      symbols[best] += symbols[best + 1];
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    for (const std::string& symbol : symbols) result.push_back(ids.at(symbol));
  }
  return result;
}

std::string random_letters(std::mt19937_64& random, std::size_t size) {
  std::string text;
  while (text.size() < size) text.push_back("aaabbc "[random() % 7]);
  return text;
}

TEST(BpeEncoder, MergesAsASlowOneDoes) {
  for (const Scheme scheme : {Scheme::llama_bpe, Scheme::smollm_bpe}) {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      std::mt19937_64 random(seed);
      const TestVocabulary vocabulary = random_bpe(random, scheme);
      const auto tokenizer = vocabulary.tokenizer();
      for (int round = 0; round < 20; ++round) {
        const std::string text = random_letters(random, 1 + random() % 60);
        ASSERT_EQ(tokenizer->encode(text), slow_bpe(vocabulary, text, scheme))
            << "seed " << seed << ", text \"" << text << '"';
      }
    }
  }
}

TEST(BpeEncoder, OnlyLlama3TakesAWholePieceThatNoMergeMakes) {
  for (const Scheme scheme : {Scheme::llama_bpe, Scheme::smollm_bpe}) {
    TestVocabulary vocabulary(scheme);
    vocabulary.add_bytes();
    vocabulary.add_merge("a", "b");
    const Token whole = vocabulary.add("abc");
    const auto ids = vocabulary.tokenizer()->encode("abc");
    if (scheme == Scheme::llama_bpe) {
      EXPECT_THAT(ids, ElementsAre(whole));
    } else {
      EXPECT_THAT(ids, ElementsAre(256, 'c'));
    }
  }
}

TEST(BpeEncoder, OfTwoMergesOfOnePairTheFirstCounts) {
  TestVocabulary vocabulary(Scheme::smollm_bpe);
  vocabulary.add_bytes();
  const Token ab = vocabulary.add_merge("a", "b");
  const Token bc = vocabulary.add_merge("b", "c");
  vocabulary.add_bare_merge("a b");
  EXPECT_THAT(vocabulary.tokenizer()->encode("abc"), ElementsAre(ab, 'c'));
  EXPECT_THAT(vocabulary.tokenizer()->encode("xbc"), ElementsAre('x', bc));
}

TEST(BpeEncoder, LeavesOutBytesThatHaveNoToken) {
  TestVocabulary vocabulary(Scheme::smollm_bpe);
  const Token a = vocabulary.add("a");
  const Token b = vocabulary.add("b");
  const Token ab = vocabulary.add_merge("a", "b");
  EXPECT_THAT(vocabulary.tokenizer()->encode("ab\xff"
                                             "a!b"),
              ElementsAre(ab, a, b));
}

TEST(BpeEncoder, RoundTripsAnyBytes) {
  for (const Scheme scheme : {Scheme::llama_bpe, Scheme::smollm_bpe}) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      std::mt19937_64 random(seed);
      const auto tokenizer = random_bpe(random, scheme).tokenizer();
      for (const std::string& text : {random_bytes(random, 200), random_text(random, 100)}) {
        ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << "seed " << seed;
      }
    }
  }
}

TEST(BpeEncoder, RoundTripsAnyBytesWithTheVocabularyOfLlama3) {
  const std::string path = golden_path("vocab/ggml-vocab-llama-bpe.gguf");
  SKIP_WITHOUT_FILE(path);
  const auto tokenizer = std::move(*Tokenizer::load(**gguf::File::open(path)));
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::string text = round % 2 == 0 ? random_bytes(random, 300) : random_text(random, 150);
    for (const bool special : {false, true}) {
      const auto ids = tokenizer->encode(text, {.parse_special = special});
      ASSERT_EQ(tokenizer->decode(ids, special), text) << "round " << round;
    }
  }
}

TEST(Encoders, AreSafeToShareBetweenThreads) {
  std::mt19937_64 random(5);
  const std::string text = random_letters(random, 20000);
  for (const Scheme scheme : {Scheme::llama_bpe, Scheme::smollm_bpe, Scheme::sentencepiece}) {
    TestVocabulary vocabulary(scheme);
    if (scheme == Scheme::sentencepiece) {
      vocabulary.add_bytes();
      vocabulary.add("ab");
    } else {
      vocabulary = random_bpe(random, scheme);
    }
    const auto tokenizer = vocabulary.tokenizer();
    const auto alone = tokenizer->encode(text);
    std::vector<std::vector<Token>> together(4);
    std::vector<std::thread> threads;
    for (auto& ids : together) {
      threads.emplace_back([&ids, &tokenizer, &text] { ids = tokenizer->encode(text); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& ids : together) EXPECT_TRUE(ids == alone);
    EXPECT_EQ(tokenizer->decode(alone), text);
  }
}

// Scores over the same alphabet. `spanning` adds tokens that have a space inside.
TestVocabulary random_sentencepiece(std::mt19937_64& random, bool spanning) {
  const std::string mark = "\xe2\x96\x81";
  TestVocabulary vocabulary(Scheme::sentencepiece);
  vocabulary.add_bytes();
  std::map<std::string, bool> made;
  const auto add = [&](const std::string& text) {
    std::string marked;
    for (const char c : text) marked += c == ' ' ? mark : std::string(1, c);
    // Few scores, so that there are ties.
    vocabulary.add(marked, TokenType::normal, -static_cast<float>(random() % 12));
    made.emplace(text, true);
  };
  for (const char* text : {"a", "b", "c", " "}) add(text);
  while (made.size() < 70) {
    std::string text = random_letters(random, 2 + random() % 3);
    const std::size_t last = text.find_last_of(' ');
    const bool spans = last != std::string::npos && text.find_first_not_of(' ') < last;
    if (!made.contains(text) && (spanning || !spans)) add(text);
  }
  return vocabulary;
}

std::vector<Token> slow_sentencepiece(const TestVocabulary& vocabulary, std::string_view text) {
  const Vocabulary view = vocabulary.view();
  std::map<std::string, Token> ids;
  for (std::size_t id = 0; id < view.texts.size(); ++id) {
    if (view.types[id] == TokenType::normal) {
      ids.emplace(view.texts[id], static_cast<Token>(id));
    }
  }
  std::vector<std::string> symbols;
  for (const char c : text) symbols.push_back(c == ' ' ? "\xe2\x96\x81" : std::string(1, c));
  for (;;) {
    std::size_t best = symbols.size();
    float best_score = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ids.find(symbols[i] + symbols[i + 1]);
      if (found == ids.end()) continue;
      const float score = view.scores[static_cast<std::size_t>(found->second)];
      if (best == symbols.size() || score > best_score) {
        best = i;
        best_score = score;
      }
    }
    if (best == symbols.size()) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  std::vector<Token> result;
  for (const std::string& symbol : symbols) result.push_back(ids.at(symbol));
  return result;
}

TEST(SentencePieceEncoder, MergesAsASlowOneDoes) {
  for (const bool spanning : {false, true}) {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      std::mt19937_64 random(seed);
      const TestVocabulary vocabulary = random_sentencepiece(random, spanning);
      const auto tokenizer = vocabulary.tokenizer();
      for (int round = 0; round < 20; ++round) {
        const std::string text = random_letters(random, 1 + random() % 60);
        ASSERT_EQ(tokenizer->encode(text), slow_sentencepiece(vocabulary, text))
            << "seed " << seed << ", text \"" << text << '"';
      }
    }
  }
}

class SmallSentencePiece : public testing::Test {
 protected:
  SmallSentencePiece() {
    vocabulary_.add_bytes();
    vocabulary_.adds_space_prefix = true;
    space_ = vocabulary_.add("\xe2\x96\x81");
    a_ = vocabulary_.add("a");
    space_a_ = vocabulary_.add(
        "\xe2\x96\x81"
        "a");
    end_ = vocabulary_.add("</s>", TokenType::control);
  }

  TestVocabulary vocabulary_{Scheme::sentencepiece};
  Token space_, a_, space_a_, end_;
};

TEST_F(SmallSentencePiece, ASpaceInFrontOfWhatOpensOrFollowsASpecialToken) {
  const auto tokenizer = vocabulary_.tokenizer();
  EXPECT_THAT(tokenizer->encode("aa"), ElementsAre(space_a_, a_));
  EXPECT_THAT(tokenizer->encode("a</s>a", {.parse_special = true}),
              ElementsAre(space_a_, end_, space_a_));
  EXPECT_THAT(tokenizer->encode("</s>"), ElementsAre(space_, '<', '/', 's', '>'));
  EXPECT_THAT(tokenizer->encode(""), ElementsAre());
  vocabulary_.adds_space_prefix = false;
  EXPECT_THAT(vocabulary_.tokenizer()->encode("a a"), ElementsAre(a_, space_a_));
}

TEST_F(SmallSentencePiece, DecodingDropsOneSpaceInFront) {
  const auto tokenizer = vocabulary_.tokenizer();
  for (const std::string text : {"a", " a", "  a a", "a  ", "\xc3\xa9 a", " "}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  // Behind a token that gives no text, but not in the middle.
  EXPECT_EQ(tokenizer->decode(std::vector<Token>{end_, space_a_, space_a_}), "a a");
  EXPECT_EQ(tokenizer->piece(space_a_), " a");
}

TEST_F(SmallSentencePiece, BytesForWhatIsNoToken) {
  const auto tokenizer = vocabulary_.tokenizer();
  EXPECT_THAT(tokenizer->encode("a\xc3\xa9\xff"), ElementsAre(space_a_, 0xc3, 0xa9, 0xff));
  // A byte token's own text is text like any other.
  EXPECT_THAT(tokenizer->encode("<0x41>"), ElementsAre(space_, '<', '0', 'x', '4', '1', '>'));
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    const std::string text = random_bytes(random, 100);
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << "round " << round;
  }
}

TEST(SentencePieceWithoutBytes, TheUnknownTokenForEachCharacter) {
  TestVocabulary vocabulary(Scheme::sentencepiece);
  vocabulary.unknown = vocabulary.add("<unk>", TokenType::unknown);
  const Token a = vocabulary.add("a");
  EXPECT_THAT(vocabulary.tokenizer()->encode("a\xc3\xa9\xe6\xbc\xa2"
                                             "a"),
              ElementsAre(a, *vocabulary.unknown, *vocabulary.unknown, a));
  EXPECT_EQ(vocabulary.tokenizer()->decode(std::vector<Token>{a, 0}), "a");
  EXPECT_EQ(vocabulary.tokenizer()->decode(std::vector<Token>{a, 0}, true), "a<unk>");
}

}  // namespace
}  // namespace terrace::tokenizer
