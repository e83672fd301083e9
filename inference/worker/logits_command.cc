#include "inference/worker/logits_command.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <istream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>
#include <vector>

#include "inference/model/private_kv.h"
#include "inference/worker/backend.h"
#include "inference/worker/read_text.h"

namespace terrace::inference {

namespace {

Result<std::vector<Token>> parse_tokens(std::string_view text) {
  constexpr std::string_view separators = ", \t\r\n";
  constexpr std::string_view blanks = " \t\r\n";
  const auto trim = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    text.remove_suffix(text.size() - std::min(text.find_last_not_of(blanks) + 1, text.size()));
  };
  trim();
  if (text.starts_with('[') && text.ends_with(']') && text.size() >= 2)
    text = text.substr(1, text.size() - 2);
  std::vector<Token> tokens;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
    if (text.empty()) break;
    const std::string_view word = text.substr(0, text.find_first_of(separators));
    Token token = 0;
    const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), token);
    if (failure != std::errc() || end != word.data() + word.size())
      return error(StatusCode::invalid_argument,
                   "\"" + std::string(word.substr(0, 32)) + "\" is no token id");
    tokens.push_back(token);
    text.remove_prefix(word.size());
  }
  if (tokens.empty()) return error(StatusCode::invalid_argument, "no tokens were given");
  return tokens;
}

Result<std::vector<float>> compute_logits(const LogitsArguments& arguments,
                                          std::span<const Token> tokens) {
  const auto file = gguf::File::open(arguments.model);
  if (!file) return error(file.error());
  const auto cuda = open_backend(arguments.options.backend, nullptr);
  if (!cuda) return error(cuda.error());
  const auto model = load_model(**file, arguments.options, *cuda);
  if (!model) return error(model.error());
  // Before memory is taken for that many tokens.
  if (tokens.size() > (*model)->config().context_length)
    return error(StatusCode::invalid_argument,
                 std::to_string(tokens.size()) + " tokens are more than the model's context of " +
                     std::to_string((*model)->config().context_length));
  PrivateKv kv((*model)->kv_geometry(), (*model)->kv_memory());
  if (Status status = kv.reserve(tokens.size()); !status.ok()) return error(std::move(status));
  const SequenceStep step{.tokens = tokens, .first_position = 0, .blocks = kv.blocks()};
  std::vector<float> logits((*model)->config().vocabulary);
  if (Status status = (*model)->forward({&step, 1}, logits); !status.ok())
    return error(std::move(status));
  return logits;
}

nlohmann::ordered_json summarize(std::span<const float> logits, std::size_t top) {
  std::vector<std::size_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), std::size_t{0});
  top = std::min(top, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(top), ids.end(),
                    [&](std::size_t a, std::size_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                    });
  nlohmann::ordered_json highest = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < top; ++i)
    highest.push_back(nlohmann::ordered_json::array({ids[i], logits[ids[i]]}));

  const double count = static_cast<double>(logits.size());
  const double mean = std::accumulate(logits.begin(), logits.end(), 0.0) / count;
  double squares = 0;
  for (const float logit : logits) squares += (logit - mean) * (logit - mean);
  return {{"top", highest}, {"mean", mean}, {"std", std::sqrt(squares / count)}};
}

}  // namespace

int run_logits(const LogitsArguments& arguments, std::istream& in, std::ostream& out,
               std::ostream& err) {
  const auto fail = [&](const Status& status) {
    err << "terrace-worker logits: " << status.message() << '\n';
    return 1;
  };
  const auto text = arguments.tokens == "-" ? read_all(in, "standard input")
                                            : Result<std::string>(arguments.tokens);
  if (!text) return fail(text.error());
  const auto tokens = parse_tokens(*text);
  if (!tokens) return fail(tokens.error());
  const auto logits = compute_logits(arguments, *tokens);
  if (!logits) return fail(logits.error());
  // A comparison with NaN has no order to sort by, and JSON has no name for it.
  if (std::any_of(logits->begin(), logits->end(), [](float x) { return !std::isfinite(x); }))
    return fail({StatusCode::internal, "the model gives logits that are no numbers"});
  out << summarize(*logits, arguments.top).dump() << '\n';
  return out.good() ? 0 : 1;
}

}  // namespace terrace::inference
