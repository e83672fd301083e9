// A tokenizer of a vocabulary that need not come from a file.
#pragma once

#include <memory>

#include "core/status.h"
#include "inference/tokenizer/tokenizer.h"
#include "inference/tokenizer/vocabulary.h"

namespace terrace::tokenizer {

// The texts that `vocabulary` views may go afterwards. `vocabulary` has the form that
// read_vocabulary gives: arrays of one length, ids in range. Errors as Tokenizer::load.
Result<std::unique_ptr<Tokenizer>> make_tokenizer(const Vocabulary& vocabulary);

}  // namespace terrace::tokenizer
