#include "client/cli/usage.h"

#include <algorithm>
#include <vector>

#include "core/edit_distance.h"

namespace terrace::cli {
namespace {

constexpr std::size_t furthest_typo = 3;

// The one that differs least from `word`; "" if none comes near it.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string found;
  std::size_t least = std::min(furthest_typo, word.size() / 2) + 1;
  for (const std::string& candidate : candidates)
    if (const std::size_t distance = edit_distance(word, candidate); distance < least) {
      least = distance;
      found = candidate;
    }
  return found;
}

// "sessions" for "terrace sessions", "terrace" for the whole.
std::string what_is_unknown(const CLI::App& at, const std::string& word) {
  std::vector<std::string> candidates;
  const bool option = word.starts_with("-");
  if (option) {
    for (const CLI::App* app = &at; app; app = app->get_parent())
      for (const CLI::Option* known : app->get_options())
        for (const std::string& name : known->get_lnames()) candidates.push_back("--" + name);
  } else {
    for (const CLI::App* verb : at.get_subcommands([](const CLI::App*) { return true; }))
      candidates.push_back(verb->get_name());
  }
  std::string text = option               ? "there is no option '" + word + "'"
                     : candidates.empty() ? "'" + word + "' is one argument too many"
                                          : "there is no verb '" + word + "'";
  if (const std::string meant = nearest(word.substr(0, word.find('=')), candidates); !meant.empty())
    text += "; did you mean '" + meant + "'?";
  return text;
}

}  // namespace

std::string usage_problem(const CLI::App& app, const CLI::ParseError& problem) {
  const CLI::App* at = &app;
  std::string command = app.get_name();
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().back();
    command += " " + at->get_name();
  }
  const std::string help = " ('" + command + " --help' lists what there is)";
  const std::vector<std::string> unknown = app.remaining(true);
  const auto code = static_cast<CLI::ExitCodes>(problem.get_exit_code());
  const bool about_words =
      code == CLI::ExitCodes::ExtrasError || code == CLI::ExitCodes::RequiredError;
  if (about_words && !unknown.empty()) return what_is_unknown(*at, unknown.front()) + help;
  return problem.what() + help;
}

}  // namespace terrace::cli
