// `terrace-bench codec`: what each codec makes of the KV blocks of a real model, how fast, and
// which one loads blocks the fastest from the disk there is.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

#include "inference/model/llama.h"

namespace terrace::bench {

struct CodecOptions {
  std::string model_path;
  inference::ModelOptions model;
  std::string text_file;    // what the model reads; empty: a text of its own
  std::size_t blocks = 16;  // at most: as many as the text fills
  std::size_t repetitions = 7;
  int zstd_level = 1;
  std::string directory;  // of the disk to compare with; empty: a temporary folder
  bool quick = false;
};

int run_codec(const CodecOptions& options, std::ostream& out, std::ostream& err);

}  // namespace terrace::bench
