// The texts that a Jinja template writes out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace terrace::tokenizer {

// In order: the string literals inside {{ }} and {% %}, with their escapes resolved, and the text
// outside of them as it stands. Comments are left out. Takes any text; what is not closed ends with
// it.
std::vector<std::string> template_literals(std::string_view source);

}  // namespace terrace::tokenizer
