// Metadata of every type, and what the accessors make of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/inference/gguf/open_bytes.h"

namespace terrace::gguf {
namespace {

using test_support::ByteSink;
using test_support::GgufWriter;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename T>
class Integers : public ::testing::Test {};
using IntegerTypes = ::testing::Types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t,
                                      std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>;
TYPED_TEST_SUITE(Integers, IntegerTypes);

TYPED_TEST(Integers, AreReadWhereTheyFit) {
  using Limits = std::numeric_limits<TypeParam>;
  GgufWriter writer;
  writer.add<TypeParam>("most", Limits::max());
  writer.add<TypeParam>("least", Limits::min());
  writer.add_array<TypeParam>("counts", {0, 7, Limits::max()});
  writer.add_array<TypeParam>("limits", {1, Limits::min()});
  const auto file = must_open(writer.bytes());
  ASSERT_TRUE(file);

  const auto most = static_cast<std::uint64_t>(Limits::max());
  EXPECT_EQ(file->unsigned_integer("most"), most);
  EXPECT_EQ(file->number("most"), static_cast<double>(Limits::max()));
  EXPECT_EQ(file->number("least"), static_cast<double>(Limits::min()));
  EXPECT_THAT(file->unsigned_integers("counts"), ElementsAre(0u, 7u, most));
  EXPECT_THAT(file->numbers("limits"), ElementsAre(1.0, static_cast<double>(Limits::min())));
  if (Limits::is_signed) {
    EXPECT_EQ(file->unsigned_integer("least"), std::nullopt);
    EXPECT_THAT(file->unsigned_integers("limits"), IsEmpty());
  } else {
    EXPECT_EQ(file->unsigned_integer("least"), 0u);
    EXPECT_THAT(file->unsigned_integers("limits"), ElementsAre(1u, 0u));
  }
  EXPECT_EQ(file->boolean("most"), std::nullopt);
  EXPECT_EQ(file->text("most"), std::nullopt);
}

TEST(Metadata, FloatsAreNumbersAndNoIntegers) {
  GgufWriter writer;
  writer.add<float>("f32", 1.5f);
  writer.add<double>("f64", -0.1);
  writer.add_array<float>("f32s", {0.25f, -2});
  writer.add_array<double>("f64s", {0.1});
  const auto file = must_open(writer.bytes());
  ASSERT_TRUE(file);
  EXPECT_EQ(file->number("f32"), 1.5);
  EXPECT_EQ(file->number("f64"), -0.1);
  EXPECT_EQ(file->unsigned_integer("f32"), std::nullopt);
  EXPECT_THAT(file->numbers("f32s"), ElementsAre(0.25, -2.0));
  EXPECT_THAT(file->numbers("f64s"), ElementsAre(0.1));
  EXPECT_THAT(file->unsigned_integers("f32s"), IsEmpty());
}

TEST(Metadata, BooleansAndTexts) {
  GgufWriter writer;
  writer.add<bool>("yes", true);
  writer.add<bool>("no", false);
  writer.add<std::string>("text", "caf\xc3\xa9");
  writer.add<std::string>("nothing", "");
  const std::string with_nul("a\0b", 3);
  writer.add_array<std::string>("texts", {"one", "", with_nul});
  writer.add_array<bool>("flags", {true});
  const auto file = must_open(writer.bytes());
  ASSERT_TRUE(file);
  EXPECT_EQ(file->boolean("yes"), true);
  EXPECT_EQ(file->boolean("no"), false);
  EXPECT_EQ(file->number("yes"), std::nullopt);
  EXPECT_EQ(file->text("text"), "caf\xc3\xa9");
  EXPECT_EQ(file->text("nothing"), "");
  EXPECT_THAT(file->texts("texts"), ElementsAre("one", "", with_nul));
  EXPECT_THAT(file->numbers("texts"), IsEmpty());
  EXPECT_THAT(file->texts("flags"), IsEmpty());
  EXPECT_EQ(file->text("texts"), std::nullopt);
  EXPECT_THAT(file->texts("text"), IsEmpty());
}

// Any byte but 0 is true; it must not become a bool by reinterpretation.
TEST(Metadata, OddBooleansAreTrue) {
  GgufWriter writer;
  writer.add_raw("odd", 7, "\x02");
  const auto file = must_open(writer.bytes());
  ASSERT_TRUE(file);
  EXPECT_EQ(file->boolean("odd"), true);
}

TEST(Metadata, AbsentKeys) {
  GgufWriter writer;
  writer.add_array<std::uint32_t>("empty", {});
  const auto file = must_open(writer.bytes());
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->has("empty"));
  EXPECT_FALSE(file->has("absent"));
  EXPECT_EQ(file->unsigned_integer("absent"), std::nullopt);
  EXPECT_EQ(file->number("absent"), std::nullopt);
  EXPECT_EQ(file->boolean("absent"), std::nullopt);
  EXPECT_EQ(file->text("absent"), std::nullopt);
  EXPECT_THAT(file->texts("absent"), IsEmpty());
  EXPECT_THAT(file->numbers("empty"), IsEmpty());
  EXPECT_THAT(file->unsigned_integers("empty"), IsEmpty());
}

TEST(Metadata, ALargeVocabularyIsReadWhole) {
  std::vector<std::string> tokens;
  for (int i = 0; i < 130000; ++i) tokens.push_back("token " + std::to_string(i));
  GgufWriter writer;
  writer.add_array("tokens", tokens);
  writer.add<std::uint32_t>("after", 1);
  const auto file = must_open(writer.bytes());
  ASSERT_TRUE(file);
  const std::vector<std::string_view> read = file->texts("tokens");
  EXPECT_TRUE(std::equal(read.begin(), read.end(), tokens.begin(), tokens.end()));
  EXPECT_EQ(file->unsigned_integer("after"), 1u);
  // Views, not copies.
  EXPECT_GE(static_cast<const void*>(read[0].data()), file->bytes().data());
  EXPECT_LT(static_cast<const void*>(read[0].data()), file->bytes().data() + file->size());
}

TEST(Metadata, RefusesDuplicateKeys) {
  GgufWriter writer;
  writer.add<std::uint32_t>("a.key", 1);
  writer.add<std::uint32_t>("other", 1);
  writer.add<std::string>("a.key", "again");
  EXPECT_THAT(refusal(writer.bytes()), HasSubstr("key 'a.key' is there twice at offset"));
}

TEST(Metadata, RefusesUnknownAndNestedTypes) {
  GgufWriter unknown;
  unknown.add_raw("k", 13, std::string(64, '\0'));
  EXPECT_THAT(refusal(unknown.bytes()), HasSubstr("key 'k': value type 13 is not known at offset"));

  GgufWriter unknown_element;
  unknown_element.add_raw("k", 9, ByteSink().put<std::uint32_t>(99).put<std::uint64_t>(1).bytes());
  EXPECT_THAT(refusal(unknown_element.bytes()), HasSubstr("value type 99 is not known"));

  GgufWriter nested;
  nested.add_raw("k", 9, ByteSink().put<std::uint32_t>(9).put<std::uint64_t>(1).bytes());
  EXPECT_THAT(refusal(nested.bytes()), HasSubstr("key 'k': arrays of arrays are not supported"));
}

TEST(Metadata, RefusesStringsThatDoNotFit) {
  GgufWriter past_end;
  past_end.add_raw("k", 8, ByteSink().put<std::uint64_t>(10).append("123456789").bytes());
  EXPECT_THAT(refusal(past_end.bytes()),
              HasSubstr("key 'k': string of 10 bytes goes past the end of the file at offset"));

  GgufWriter over_limit;
  over_limit.add_raw("k", 8, ByteSink().put<std::uint64_t>((1u << 30) + 1u).bytes());
  EXPECT_THAT(refusal(over_limit.bytes()),
              HasSubstr("string of 1073741825 bytes is over the limit of 1 GiB"));

  GgufWriter wraps;
  wraps.add_raw("k", 8, ByteSink().put<std::uint64_t>(~0ull - 7).append("rest").bytes());
  EXPECT_THAT(refusal(wraps.bytes()), HasSubstr("is over the limit of 1 GiB"));
}

TEST(Metadata, RefusesArraysThatDoNotFit) {
  const auto array = [](std::uint32_t type, std::uint64_t count, std::string_view elements) {
    GgufWriter writer;
    writer.add_raw(
        "k", 9,
        ByteSink().put<std::uint32_t>(type).put<std::uint64_t>(count).append(elements).bytes());
    return writer.bytes();
  };
  EXPECT_THAT(refusal(array(4, 3, "12345678901")),
              HasSubstr("key 'k': array of 3 elements goes past the end of the file at offset"));
  EXPECT_THAT(refusal(array(4, (1u << 28) + 1u, "")), HasSubstr("is over the limit of 1 GiB"));
  EXPECT_THAT(refusal(array(8, (1u << 27) + 1u, "")), HasSubstr("is over the limit of 1 GiB"));
  // count * element size is 0 and 4 in 64 bits
  EXPECT_THAT(refusal(array(4, 1ull << 62, "")), HasSubstr("is over the limit of 1 GiB"));
  EXPECT_THAT(refusal(array(4, (1ull << 62) + 1, "1234")), HasSubstr("over the limit of 1 GiB"));
  EXPECT_THAT(refusal(array(8, 2, ByteSink().put<std::string>("ok").put<std::uint64_t>(9).bytes())),
              HasSubstr("key 'k': element 1: string of 9 bytes goes past the end of the file"));
}

TEST(Metadata, RefusesKeysThatAreTooLong) {
  GgufWriter longest;
  longest.add<bool>(std::string(65535, 'k'), true);
  EXPECT_TRUE(must_open(longest.bytes()));
  GgufWriter longer;
  longer.add<bool>(std::string(65536, 'k'), true);
  EXPECT_THAT(refusal(longer.bytes()), HasSubstr("metadata key 0 of 1 is cut short or too long"));
}

// Names come from the file: what is shown of them is short and cannot write to a terminal.
TEST(Metadata, MessagesShowNamesSafely) {
  GgufWriter writer;
  writer.add_raw("evil\n\x1b[31m\xff" + std::string(1000, 'x'), 13, "");
  const std::string message = refusal(writer.bytes());
  EXPECT_THAT(message, HasSubstr("key 'evil??[31m?xxx"));
  EXPECT_LT(message.size(), 300u);
}

}  // namespace
}  // namespace terrace::gguf
