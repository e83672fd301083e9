#include "inference/worker/generate_command.h"

#include <istream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "inference/worker/read_text.h"

namespace terrace::inference {

namespace {

// How long a one-shot process stays to hand over what it computed.
constexpr std::chrono::milliseconds flush_limit{2000};

// Back to the start of a terminal's line, and nothing on it: over what the progress left.
constexpr const char* clear_line = "\r\033[K";

Result<std::string> read_text(const std::optional<std::string>& text,
                              const std::optional<std::string>& path, std::istream& in) {
  if (text) return *text;
  if (!path) return std::string();
  return *path == "-" ? read_all(in, "standard input") : read_file(*path);
}

Result<tokenizer::PromptText> read_texts(const GenerateArguments& arguments, std::istream& in) {
  tokenizer::PromptText texts;
  texts.raw = arguments.raw;
  auto prompt = read_text(arguments.prompt, arguments.prompt_file, in);
  if (!prompt) return error(prompt.error());
  texts.text = std::move(*prompt);
  if (arguments.system || arguments.system_file) {
    auto system = read_text(arguments.system, arguments.system_file, in);
    if (!system) return error(system.error());
    texts.system = std::move(*system);
  }
  return texts;
}

void print_json(const Generation& generation, std::ostream& out) {
  nlohmann::ordered_json by_tier;
  for (Tier tier : all_tiers)
    by_tier[to_string(tier)] = generation.hit.tokens_by_tier[static_cast<std::size_t>(tier)];
  nlohmann::ordered_json object = {{"text", generation.text},
                                   {"token_ids", generation.token_ids},
                                   {"prompt_tokens", generation.prompt_tokens},
                                   {"cached_tokens", generation.hit.cached_tokens},
                                   {"cached_by_tier", by_tier},
                                   {"ttft_ms", generation.ttft_ms},
                                   {"decode_tokens_per_s", generation.decode_tokens_per_s},
                                   {"finish_reason", to_string(generation.finish_reason)}};
  // An answer cut inside a character is not valid UTF-8.
  out << object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
}

}  // namespace

int run_generate(GenerateArguments arguments, std::istream& in, std::ostream& out,
                 std::ostream& err) {
  const auto fail = [&](const Status& status) {
    err << "terrace-worker generate: " << status.message() << std::endl;
    return 1;
  };
  if (Status status = arguments.generate.sampling.validate(); !status.ok()) return fail(status);
  const auto texts = read_texts(arguments, in);
  if (!texts) return fail(texts.error());
  arguments.engine.warn = [&err, clear = arguments.show_progress ? clear_line
                                                                 : ""](const std::string& line) {
    err << clear << "terrace-worker generate: " << line << std::endl;
  };
  if (arguments.show_progress) {
    arguments.engine.model.notice = arguments.engine.warn;
    arguments.engine.model.progress = [&err](double fraction) {
      err << "\rloading the model: " << static_cast<int>(fraction * 100) << " %" << std::flush;
    };
  }
  auto engine = Engine::load(arguments.engine);
  if (arguments.show_progress) err << clear_line << std::flush;
  if (!engine) return fail(engine.error());
  const auto prompt = (*engine)->encode(*texts);
  if (!prompt) return fail(prompt.error());

  if (!arguments.json) {
    arguments.generate.on_text = [&](std::string_view text) { out << text << std::flush; };
  }
  const auto generation = (*engine)->generate(*prompt, arguments.generate);
  if (!generation) return fail(generation.error());
  if (arguments.json) {
    print_json(*generation, out);
  } else {
    out << std::endl;
  }
  (*engine)->flush_cache(flush_limit);
  if (!out) return fail({StatusCode::io_error, "could not write the answer"});
  return 0;
}

}  // namespace terrace::inference
