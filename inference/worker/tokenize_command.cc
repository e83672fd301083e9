#include "inference/worker/tokenize_command.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <istream>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>

#include "core/status.h"
#include "inference/gguf/gguf_file.h"
#include "inference/tokenizer/tokenizer.h"

namespace terrace::inference {
namespace {

Result<std::unique_ptr<tokenizer::Tokenizer>> load_tokenizer(const std::string& path) {
  const auto file = gguf::File::open(path);
  if (!file) return error(file.error());
  return tokenizer::Tokenizer::load(**file);
}

// Of a stream that may fail in the middle: by read(), which takes no exception for an answer.
Result<std::string> read_all(std::istream& in, std::string_view name) {
  std::string text;
  std::array<char, 1 << 16> buffer;
  errno = 0;
  while (in.read(buffer.data(), buffer.size()), in.gcount() > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) return error(errno_status(errno, "could not read " + std::string(name)));
  return text;
}

Result<std::string> read_file(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return error(errno_status(errno, "could not open " + path));
  return read_all(in, path);
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
