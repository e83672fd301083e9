#include "bench/replay/trace.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace terrace::bench {
namespace {

class TraceTest : public testing::Test {
 protected:
  std::string write(const std::string& text) {
    const std::string path = directory_.file("trace.jsonl");
    std::ofstream(path) << text;
    return path;
  }
  test_support::TempDir directory_;
};

TEST_F(TraceTest, NumbersIdsAndCounts) {
  const auto trace = read_trace(write(R"({"input_length": 1024, "hash_ids": [70, 71]}
{"timestamp": 5, "input_length": 1300, "output_length": 3, "hash_ids": [70, 5, 9]}
)"),
                                false);
  ASSERT_TRUE(trace) << trace.error().message();
  ASSERT_EQ(trace->requests.size(), 2u);
  EXPECT_EQ(trace->requests[0].blocks, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(trace->requests[1].blocks, (std::vector<std::uint32_t>{0, 2, 3}));
  EXPECT_EQ(trace->blocks, 5u);
  EXPECT_EQ(trace->distinct, 4u);
}

TEST_F(TraceTest, LeavesOutWhatIsOnlyPartlyFilled) {
  const auto trace = read_trace(write(R"({"input_length": 1024, "hash_ids": [1, 2]}
{"input_length": 1025, "hash_ids": [1, 2, 3]}
{"input_length": 100, "hash_ids": [9]})"),
                                true);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->requests[0].blocks.size(), 2u);
  EXPECT_EQ(trace->requests[1].blocks.size(), 2u);
  EXPECT_EQ(trace->requests[2].blocks.size(), 0u);
  EXPECT_EQ(trace->distinct, 2u);
}

TEST_F(TraceTest, NamesTheLineThatIsWrong) {
  for (const char* line :
       {"x", "{}", R"({"hash_ids": 3})", R"({"hash_ids": [-1]})", R"({"hash_ids": [4294967296]})",
        R"({"hash_ids": ["a"]})", R"({"hash_ids": [1], "input_length": "long"})"}) {
    const auto trace = read_trace(
        write("{\"hash_ids\": [1], \"input_length\": 512}\n" + std::string(line) + "\n"), true);
    ASSERT_FALSE(trace) << line;
    EXPECT_NE(trace.error().message().find(":2: "), std::string::npos) << trace.error().message();
  }
  EXPECT_FALSE(read_trace(directory_.file("none"), false));
}

}  // namespace
}  // namespace terrace::bench
