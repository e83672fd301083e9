#include "inference/worker/tokenize_command.h"

#include <cstddef>
#include <istream>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>

#include "core/status.h"
#include "inference/gguf/gguf_file.h"
#include "inference/tokenizer/tokenizer.h"
#include "inference/worker/read_text.h"

namespace terrace::inference {
namespace {

Result<std::unique_ptr<tokenizer::Tokenizer>> load_tokenizer(const std::string& path) {
  const auto file = gguf::File::open(path);
  if (!file) return error(file.error());
  return tokenizer::Tokenizer::load(**file);
}

class Printer {
 public:
  Printer(const tokenizer::Tokenizer& tokenizer, bool special, std::ostream& out)
      : tokenizer_(tokenizer), options_{.parse_special = special}, out_(out) {}

  Status print(std::string_view text) {
    out_ << nlohmann::json(tokenizer_.encode(text, options_)).dump() << std::endl;
    return out_ ? Status() : Status(StatusCode::io_error, "could not write the ids");
  }

  Status print_lines(std::istream& in) {
    std::string line;
    for (std::size_t number = 1; std::getline(in, line); ++number) {
      const auto value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!value.is_string()) {
        return Status(StatusCode::invalid_argument,
                      "line " + std::to_string(number) + " of the input is not a JSON string");
      }
      if (Status status = print(value.get_ref<const std::string&>()); !status.ok()) return status;
    }
    return {};
  }

 private:
  const tokenizer::Tokenizer& tokenizer_;
  const tokenizer::EncodeOptions options_;
  std::ostream& out_;
};

Status tokenize(const TokenizeArguments& arguments, std::istream& in, std::ostream& out) {
  if (arguments.text.has_value() + arguments.file.has_value() + arguments.jsonl > 1) {
    return Status(StatusCode::invalid_argument, "give only one of --text, --file and --jsonl");
  }
  const auto tokenizer = load_tokenizer(arguments.model);
  if (!tokenizer) return tokenizer.error();
  Printer printer(**tokenizer, arguments.special, out);
  if (arguments.jsonl) return printer.print_lines(in);
  if (arguments.text) return printer.print(*arguments.text);
  const auto text = arguments.file ? read_file(*arguments.file) : read_all(in, "the input");
  return text ? printer.print(*text) : text.error();
}

}  // namespace

int run_tokenize(const TokenizeArguments& arguments, std::istream& in, std::ostream& out,
                 std::ostream& err) {
  const Status status = tokenize(arguments, in, out);
  if (status.ok()) return 0;
  err << "terrace-worker tokenize: " << status.message() << std::endl;
  return 1;
}

}  // namespace terrace::inference
