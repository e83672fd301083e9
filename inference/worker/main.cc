// terrace-worker: runs a llama-architecture model over prompts, with the prefix cache of terraced
// where it is there.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/source.h"
#include "config/worker_config.h"
#include "inference/server/serve_command.h"
#include "inference/worker/config_defaults.h"
#include "inference/worker/generate_command.h"
#include "inference/worker/logits_command.h"
#include "inference/worker/model_options.h"
#include "inference/worker/tokenize_command.h"

namespace {

using namespace terrace;
using namespace terrace::inference;

void add_generate(CLI::App& app, int& status) {
  auto arguments = std::make_shared<GenerateArguments>();
  auto no_cache = std::make_shared<bool>(false);
  CLI::App& command = *app.add_subcommand("generate", "Answer one prompt");
  auto config = std::make_shared<std::string>();
  command.add_option("--config", *config, "TOML file of options; flags win");
  add_model_options(command, arguments->engine.model_path, arguments->engine.model)
      ->required(false);
  add_backend_option(command, arguments->engine.model);
  CLI::Option* prompt = command.add_option("--prompt", arguments->prompt, "The user's text");
  CLI::Option* prompt_file = command.add_option("--prompt-file", arguments->prompt_file,
                                                "The same from a file, or - for standard input");
  prompt->excludes(prompt_file);
  CLI::Option* system = command.add_option("--system", arguments->system, "The system prompt");
  CLI::Option* system_file =
      command.add_option("--system-file", arguments->system_file, "The same from a file");
  system->excludes(system_file);
  CLI::Option* raw = command.add_flag("--raw", arguments->raw,
                                      "The prompt as it stands, without the chat template");
  raw->excludes(system)->excludes(system_file);
  command
      .add_option("--max-tokens", arguments->generate.max_tokens,
                  "Length of the answer at most (default 256)")
      ->check(CLI::Range(1u, 1u << 20));
  SamplingOptions& sampling = arguments->generate.sampling;
  command.add_option("--temperature", sampling.temperature, "0 is greedy (default)")
      ->check(CLI::Range(0.0, 100.0));
  command.add_option("--top-k", sampling.top_k, "Sample among the K likeliest tokens; 0 is off")
      ->check(CLI::Range(0, 1 << 20));
  command
      .add_option("--top-p", sampling.top_p, "Sample among the likeliest tokens that add up to P")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--seed", sampling.seed, "Seed of sampling");
  CLI::Option* socket =
      command.add_option("--socket", arguments->engine.socket_path, "Socket of terraced");
  command
      .add_option("--token-file", arguments->engine.token_file,
                  "A file whose first line is the token to show to terraced")
      ->envname("TERRACE_TOKEN_FILE");
  command.add_flag("--no-cache", *no_cache, "Do not ask terraced")->excludes(socket);
  command.add_flag_callback(
      "--no-store", [arguments] { arguments->generate.store = false; },
      "Use what is cached, but keep nothing of this request");
  command.add_flag("--json", arguments->json, "Print one JSON object instead of text");
  command.callback([=, command_of = &command, &status] {
    if (!arguments->prompt && !arguments->prompt_file)
      throw CLI::RequiredError("--prompt or --prompt-file");
    arguments->engine.use_cache = !*no_cache;
    arguments->show_progress = ::isatty(STDERR_FILENO) != 0;
    if (!config->empty()) {
      const Status applied = apply_config_defaults(*config, *command_of, *arguments);
      if (!applied.ok()) {
        std::cerr << "terrace-worker generate: " << applied.message() << std::endl;
        status = 1;
        return;
      }
    }
    if (arguments->engine.model_path.empty()) throw CLI::RequiredError("--model");
    status = run_generate(*arguments, std::cin, std::cout, std::cerr);
  });
}

void add_serve(CLI::App& app, int& status) {
  struct Flags {
    ServeArguments arguments;
    std::string config, listen, api_key_file, model_name;
    std::vector<std::string> settings;
    bool no_cache = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App& command = *app.add_subcommand("serve", "Serve OpenAI's API over HTTP");
  command.add_option("--config", flags->config, "TOML file of options; flags win");
  command.add_option("--set", flags->settings, "One option of the file, as KEY=VALUE");
  add_model_options(command, flags->arguments.engine.model_path, flags->arguments.engine.model)
      ->required(false);
  add_backend_option(command, flags->arguments.engine.model);
  command.add_option("--listen", flags->listen, "ADDRESS:PORT (default 127.0.0.1:8080)");
  command.add_option("--model-name", flags->model_name, "What requests call the model");
  command.add_option("--api-key-file", flags->api_key_file, "API keys, one a line");
  CLI::Option* socket =
      command.add_option("--socket", flags->arguments.engine.socket_path, "Socket of terraced");
  command
      .add_option("--token-file", flags->arguments.engine.token_file,
                  "A file whose first line is the token to show to terraced")
      ->envname("TERRACE_TOKEN_FILE");
  command.add_flag("--no-cache", flags->no_cache, "Do not ask terraced")->excludes(socket);
  command.callback([=, command_of = &command, &status] {
    ServeArguments& arguments = flags->arguments;
    arguments.engine.use_cache = !flags->no_cache;
    const auto fail = [&](const std::string& why) {
      std::cerr << "terrace-worker serve: " << why << std::endl;
      status = 1;
    };
    std::vector<config::Override> overrides;
    for (const std::string& text : flags->settings) {
      auto set = config::Override::set(text);
      if (!set) return fail(set.error().message());
      overrides.push_back(std::move(*set));
    }
    const auto flag = [&](const char* name, const char* key, const std::string& text) {
      if (!text.empty()) overrides.push_back(config::Override::flag(name, key, text));
    };
    flag("--listen", "server.listen", flags->listen);
    flag("--model-name", "server.model_name", flags->model_name);
    flag("--api-key-file", "server.api_key_file", flags->api_key_file);
    const auto config = config::load_worker_config(
        flags->config.empty() ? std::nullopt : std::optional<std::filesystem::path>(flags->config),
        overrides);
    if (!config) return fail(config.error().message());
    apply_engine_config(*config, *command_of, arguments.engine);
    arguments.server = config->server;
    arguments.defaults = api_defaults(*config);
    if (arguments.engine.model_path.empty()) throw CLI::RequiredError("--model");
    status = run_serve(arguments, std::cerr);
  });
}

void add_tokenize(CLI::App& app, int& status) {
  auto arguments = std::make_shared<TokenizeArguments>();
  CLI::App& command =
      *app.add_subcommand("tokenize", "Print the token ids of a text as a JSON array");
  command.add_option("--model", arguments->model, "GGUF file with a vocabulary")->required();
  command.add_flag("--special", arguments->special, "Texts of control tokens become those tokens");
  CLI::Option* text = command.add_option("--text", arguments->text, "The text");
  CLI::Option* file =
      command.add_option("--file", arguments->file, "The text from a file")->excludes(text);
  CLI::Option* jsonl =
      command.add_flag("--jsonl", arguments->jsonl, "JSON strings from standard input, one a line");
  jsonl->excludes(text)->excludes(file);
  command.callback(
      [=, &status] { status = run_tokenize(*arguments, std::cin, std::cout, std::cerr); });
}

void add_logits(CLI::App& app, int& status) {
  auto arguments = std::make_shared<LogitsArguments>();
  auto options = std::make_shared<ModelOptions>();
  CLI::App& command =
      *app.add_subcommand("logits", "Print the logits after the last of some tokens");
  add_model_options(command, arguments->model, *options);
  add_backend_option(command, *options);
  command.add_option("--tokens", arguments->tokens, "Ids such as 1,2,3, or - for standard input")
      ->required();
  command.add_option("--top", arguments->top, "How many of the highest logits (default 10)");
  command.callback([=, &status] {
    arguments->options = *options;
    status = run_logits(*arguments, std::cin, std::cout, std::cerr);
  });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Runs a llama-architecture model over prompts, with the prefix cache of terraced where it is "
      "there.",
      "terrace-worker");
  app.set_version_flag("--version", TERRACE_VERSION);
  app.require_subcommand(1);
  int status = 0;
  add_generate(app, status);
  add_serve(app, status);
  add_tokenize(app, status);
  add_logits(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return app.exit(problem);
    std::cerr << "terrace-worker: " << problem.what()
              << " ('terrace-worker --help' lists what there is)" << std::endl;
    return 2;
  } catch (const std::exception& failure) {
    std::cerr << "terrace-worker: " << failure.what() << std::endl;
    return 1;
  }
  return status;
}
