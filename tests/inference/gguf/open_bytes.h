// Bytes to an open file, as the tests of this folder need it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "inference/gguf/gguf_file.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"

namespace terrace::gguf {

inline Result<std::unique_ptr<File>> open_bytes(const std::string& bytes) {
  const test_support::TempDir dir;  // the mapping outlives the name
  const std::string path = dir.file("model.gguf");
  if (Status status = test_support::write_file(path, bytes); !status.ok()) return error(status);
  return File::open(path);
}

// The file, or a failed test.
inline std::unique_ptr<File> must_open(const std::string& bytes) {
  Result<std::unique_ptr<File>> file = open_bytes(bytes);
  EXPECT_TRUE(file.has_value()) << (file ? "" : file.error().to_string());
  return file ? std::move(*file) : nullptr;
}

// Why the bytes were refused: an invalid_argument of one line that names the file, or a failed
// test.
inline std::string refusal(const std::string& bytes) {
  const Result<std::unique_ptr<File>> file = open_bytes(bytes);
  EXPECT_FALSE(file.has_value());
  if (file) return "";
  EXPECT_EQ(file.error().code(), StatusCode::invalid_argument);
  EXPECT_NE(file.error().message().find("model.gguf: "), std::string::npos);
  for (const char c : file.error().message()) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
  return file.error().message();
}

}  // namespace terrace::gguf
