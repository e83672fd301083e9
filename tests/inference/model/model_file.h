// A llama file in pieces, so that a test can change one of them: a key, a shape, a missing tensor.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "inference/gguf/gguf_file.h"

namespace terrace::inference {

struct ModelFile {
  struct TensorSpec {
    std::vector<std::uint64_t> dims;
    gguf::TensorType type = gguf::TensorType::f32;
    float mean = 0, deviation = 1;
  };

  // Two layers of four heads over two kv heads of 16; every tensor is F32 and random.
  ModelFile();

  std::map<std::string, std::uint32_t> integers;
  std::map<std::string, std::vector<std::uint32_t>> integer_lists;
  std::map<std::string, float> numbers;
  std::map<std::string, std::string> texts;
  std::map<std::string, std::vector<std::string>> text_lists;
  std::map<std::string, TensorSpec> tensors;

  void add_matrix(const std::string& name, std::uint64_t inputs, std::uint64_t outputs);

  // Writes the file and opens it; ends the test program if that fails. Equal models give equal
  // bytes.
  std::unique_ptr<gguf::File> open(const std::string& path) const;
};

}  // namespace terrace::inference
