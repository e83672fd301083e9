#include "client/cli/generate/command_tree.h"

#include <sstream>

namespace terrace::cli {
namespace {

// CLI11 shows a choice as "TEXT:{device,host}".
std::vector<std::string> choices_of(const std::string& type) {
  const auto open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  std::vector<std::string> choices;
  std::istringstream words(type.substr(open + 1, close - open - 1));
  for (std::string word; std::getline(words, word, ',');) choices.push_back(word);
  return choices;
}

CommandOption to_option(const CLI::Option& from) {
  CommandOption option;
  option.positional = from.get_positional();
  option.name = option.positional ? from.get_name(true) : "--" + from.get_lnames().front();
  option.about = from.get_description();
  option.required = from.get_required();
  option.environment = from.get_envname();
  if (from.get_items_expected_max() == 0) return option;
  const std::string type = from.get_type_name();
  option.choices = choices_of(type);
  // Without what only the parser's checks say.
  option.value = option.choices.empty() ? type.substr(0, type.find(':')) : "WORD";
  return option;
}

void add_commands(const CLI::App& app, const std::string& above, std::vector<Command>& commands) {
  Command command;
  command.name = app.get_name();
  command.path = above.empty() ? command.name : above + " " + command.name;
  command.about = app.get_description();
  for (const CLI::Option* option : app.get_options())
    if (option->get_positional() || !option->get_lnames().empty())
      command.options.push_back(to_option(*option));
  const auto verbs = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* verb : verbs) command.verbs.push_back(verb->get_name());
  const std::string path = command.path;
  commands.push_back(std::move(command));
  for (const CLI::App* verb : verbs) add_commands(*verb, path, commands);
}

}  // namespace

std::vector<Command> command_tree(const CLI::App& program) {
  std::vector<Command> commands;
  add_commands(program, "", commands);
  return commands;
}

}  // namespace terrace::cli
