#include "inference/model/model_digest.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"

namespace terrace::inference {
namespace {

class ModelDigest : public testing::Test {
 protected:
  ModelDigest() { ::setenv("XDG_CACHE_HOME", directory_.file("cache").c_str(), 1); }
  ~ModelDigest() override { ::unsetenv("XDG_CACHE_HOME"); }

  // A GGUF file without tensors and with one text of metadata; `age_s` seconds old.
  std::string write_model(const std::string& name, const std::string& text, int age_s = 3600) {
    test_support::GgufWriter writer;
    writer.add<std::string>("general.name", text);
    const std::string path = directory_.file(name);
    EXPECT_TRUE(writer.write(path).ok());
    set_age(path, age_s);
    return path;
  }

  static void set_age(const std::string& path, int age_s) {
    const timespec when{::time(nullptr) - age_s, 0};
    const timespec times[2] = {when, when};
    ::utimensat(AT_FDCWD, path.c_str(), times, 0);
  }

  static Digest digest_of(const std::string& path) {
    const auto file = gguf::File::open(path);
    EXPECT_TRUE(file) << file.error().to_string();
    return model_digest(**file, 2);
  }

  std::vector<std::filesystem::path> entries() const {
    std::vector<std::filesystem::path> found;
    std::error_code absent;
    for (const auto& entry :
         std::filesystem::directory_iterator(directory_.file("cache/terrace/digests"), absent))
      found.push_back(entry.path());
    return found;
  }

  test_support::TempDir directory_;
};

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 977);
  return bytes;
}

TEST(TreeDigest, IsTheSameForAnyNumberOfThreads) {
  const auto bytes = pattern(3 * digest_piece_bytes + 12345);
  const Digest one = tree_digest(bytes, 1);
  EXPECT_EQ(tree_digest(bytes, 4), one);
  EXPECT_EQ(tree_digest(bytes, 0), one);
}

TEST(TreeDigest, EveryByteAndTheLengthCount) {
  auto bytes = pattern(digest_piece_bytes + 100);
  const Digest whole = tree_digest(bytes, 2);
  for (const std::size_t at : {std::size_t{0}, digest_piece_bytes, bytes.size() - 1}) {
    bytes[at] ^= std::byte{1};
    EXPECT_NE(tree_digest(bytes, 2), whole);
    bytes[at] ^= std::byte{1};
  }
  EXPECT_NE(tree_digest(std::span(bytes).first(bytes.size() - 1), 2), whole);
  EXPECT_NE(tree_digest({}, 2), whole);
}

TEST_F(ModelDigest, IsKeptAndFoundAgain) {
  const std::string path = write_model("a.gguf", "weights");
  const Digest first = digest_of(path);
  ASSERT_EQ(entries().size(), 1u);
  EXPECT_EQ(digest_of(path), first);

  // That the second answer came from the cache shows when the file's bytes change behind a stamp
  // that does not.
  struct stat before;
  ASSERT_EQ(::stat(path.c_str(), &before), 0);
  {
    std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(-1, std::ios::end);
    out.put('X');
  }
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_EQ(digest_of(path), first);
  set_age(path, 1800);
  EXPECT_NE(digest_of(path), first);
}

TEST_F(ModelDigest, NewWeightsUnderTheSameNameGetAnotherDigest) {
  const std::string path = write_model("a.gguf", "weights one");
  const Digest first = digest_of(path);
  const std::string other = write_model("b.gguf", "weights two");  // same size, same age
  std::filesystem::rename(other, path);
  EXPECT_NE(digest_of(path), first);
}

TEST_F(ModelDigest, AFileReplacedAfterOpeningKeepsItsOwnDigest) {
  const std::string path = write_model("a.gguf", "weights one");
  const auto file = gguf::File::open(path);
  ASSERT_TRUE(file);
  const std::string other = write_model("b.gguf", "weights two");
  std::filesystem::rename(other, path);
  // Nothing may be kept under the name of the file that came later.
  EXPECT_EQ(model_digest(**file, 1), tree_digest((*file)->bytes(), 1));
  EXPECT_TRUE(entries().empty());
  EXPECT_NE(digest_of(path), model_digest(**file, 1));
}

TEST_F(ModelDigest, AFileWrittenAMomentAgoIsNotKept) {
  digest_of(write_model("a.gguf", "weights", 0));
  EXPECT_TRUE(entries().empty());
}

TEST_F(ModelDigest, ACorruptEntryIsMadeAgain) {
  const std::string path = write_model("a.gguf", "weights");
  const Digest right = digest_of(path);
  ASSERT_EQ(entries().size(), 1u);
  const auto entry = entries().front();
  std::string good;
  std::getline(std::ifstream(entry), good);
  for (std::size_t at = 0; at < good.size(); at += 13) {
    std::string bad = good + "\n";
    bad[at] = bad[at] == '0' ? '1' : '0';
    std::ofstream(entry, std::ios::trunc) << bad;
    EXPECT_EQ(digest_of(path), right) << "flipped byte " << at;
    std::ofstream(entry, std::ios::trunc) << good.substr(0, at);
    EXPECT_EQ(digest_of(path), right) << "cut at " << at;
    std::string again;
    std::getline(std::ifstream(entry), again);
    EXPECT_EQ(again, good);
  }
}

TEST_F(ModelDigest, ACacheThatCannotBeWrittenIsNoError) {
  const std::string path = write_model("a.gguf", "weights");
  std::ofstream(directory_.file("cache")) << "a file where the directory should be";
  const auto file = gguf::File::open(path);
  ASSERT_TRUE(file);
  EXPECT_EQ(digest_of(path), tree_digest((*file)->bytes(), 1));
}

}  // namespace
}  // namespace terrace::inference
