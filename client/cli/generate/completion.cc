#include "client/cli/generate/completion.h"

#include <algorithm>
#include <ostream>
#include <set>

namespace terrace::cli {
namespace {

// In single quotes of a shell.
std::string shell_quoted(const std::string& text) {
  std::string quote = "'";
  for (const char c : text) quote += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quote + "'";
}

// Fish's quotes know two escapes.
std::string fish_quoted(const std::string& text) {
  std::string quote = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quote += '\\';
    quote += c;
  }
  return quote + "'";
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// Patterns of all verbs, each with its path: "'terrace ls' | 'terrace config' | ...".
std::string all_verbs(const std::vector<Command>& commands, const char* between) {
  std::vector<std::string> paths;
  for (const Command& command : commands)
    if (command.path != command.name) paths.push_back(shell_quoted(command.path));
  return joined(paths, between);
}

// What may stand there: verbs, options (those of the whole program everywhere), few words.
std::vector<std::string> words_of(const Command& command, const Command& program) {
  std::vector<std::string> words = command.verbs;
  for (const CommandOption& option : command.options) {
    if (option.positional)
      words.insert(words.end(), option.choices.begin(), option.choices.end());
    else
      words.push_back(option.name);
  }
  if (&command != &program)
    for (const CommandOption& option : program.options)
      if (std::ranges::find(words, option.name) == words.end()) words.push_back(option.name);
  return words;
}

// The options that take something, as a shell's `case "$at $before" in` finds them; those of the
// program under every path.
template <typename Print>
void for_each_valued_option(const std::vector<Command>& commands, Print print) {
  for (const Command& command : commands)
    for (const CommandOption& option : command.options)
      if (!option.positional && !option.value.empty())
        print(&command == &commands.front() ? "*" + shell_quoted(" " + option.name)
                                            : shell_quoted(command.path + " " + option.name),
              option);
}

}  // namespace

void print_bash_completion(const std::vector<Command>& commands, std::ostream& out) {
  const Command& program = commands.front();
  out << "# Completes " << program.name << " in bash: source this, or install it as\n"
      << "# /usr/share/bash-completion/completions/" << program.name << "\n"
      << "_terrace() {\n"
         "  local at="
      << program.name
      << " current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words= i\n"
         "  COMPREPLY=()\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    case \"$at ${COMP_WORDS[i]}\" in\n"
         "      "
      << all_verbs(commands, " | ")
      << ") at=\"$at ${COMP_WORDS[i]}\" ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$at $before\" in\n";
  for_each_valued_option(commands, [&](const std::string& pattern, const CommandOption& option) {
    out << "    " << pattern << ")\n      ";
    if (option.value == "FILE")
      out << "mapfile -t COMPREPLY < <(compgen -f -- \"$current\")";
    else
      out << "mapfile -t COMPREPLY < <(compgen -W " << shell_quoted(joined(option.choices, " "))
          << " -- \"$current\")";
    out << "\n      return\n      ;;\n";
  });
  out << "  esac\n"
         "  case \"$at\" in\n";
  for (const Command& command : commands)
    out << "    " << shell_quoted(command.path)
        << ") words=" << shell_quoted(joined(words_of(command, program), " ")) << " ;;\n";
  out << "  esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
         "}\n"
         "complete -F _terrace "
      << program.name << "\n";
}

void print_zsh_completion(const std::vector<Command>& commands, std::ostream& out) {
  const Command& program = commands.front();
  // _describe takes WORD:ABOUT.
  const auto described = [](const std::string& word, std::string about) {
    std::string text = word;
    text += ':' + about;
    return shell_quoted(text);
  };
  out << "#compdef " << program.name << "\n"
      << "# Completes " << program.name << " in zsh: install it as _" << program.name
      << " in a folder of $fpath.\n"
      << "_terrace() {\n"
         "  local at="
      << program.name
      << " i\n"
         "  local -a candidates\n"
         "  for ((i = 2; i < CURRENT; i++)); do\n"
         "    case \"$at $words[i]\" in\n"
         "      ("
      << all_verbs(commands, "|")
      << ") at=\"$at $words[i]\" ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$at $words[CURRENT-1]\" in\n";
  for_each_valued_option(commands, [&](const std::string& pattern, const CommandOption& option) {
    out << "    (" << pattern << ") ";
    if (option.value == "FILE")
      out << "_files";
    else if (!option.choices.empty())
      out << "compadd -- " << joined(option.choices, " ");
    else
      out << "_message " << shell_quoted(option.about);
    out << "; return ;;\n";
  });
  out << "  esac\n"
         "  case \"$at\" in\n";
  for (const Command& command : commands) {
    out << "    (" << shell_quoted(command.path) << ") candidates=(\n";
    for (const std::string& verb : command.verbs)
      for (const Command& below : commands)
        if (below.path == command.path + " " + verb)
          out << "      " << described(verb, below.about) << "\n";
    std::set<std::string> own;
    for (const CommandOption& option : command.options) {
      own.insert(option.name);
      if (!option.positional) out << "      " << described(option.name, option.about) << "\n";
      for (const std::string& choice : option.choices)
        if (option.positional) out << "      " << described(choice, option.about) << "\n";
    }
    // Those of the whole program stand behind a verb, too.
    for (const CommandOption& option : program.options)
      if (!own.contains(option.name))
        out << "      " << described(option.name, option.about) << "\n";
    out << "    ) ;;\n";
  }
  out << "  esac\n"
         "  _describe "
      << program.name
      << " candidates\n"
         "}\n"
         "if [[ $funcstack[1] = _terrace ]]; then _terrace \"$@\"; else compdef _terrace "
      << program.name << "; fi\n";
}

void print_fish_completion(const std::vector<Command>& commands, std::ostream& out) {
  const Command& program = commands.front();
  out << "# Completes " << program.name << " in fish: install it as\n"
      << "# ~/.config/fish/completions/" << program.name << ".fish\n"
      << "function __terrace_at\n"
         "  set -l at "
      << program.name
      << "\n"
         "  for word in (commandline -opc)[2..-1]\n"
         "    switch \"$at $word\"\n"
         "      case "
      << all_verbs(commands, " ")
      << "\n"
         "        set at \"$at $word\"\n"
         "    end\n"
         "  end\n"
         "  test \"$at\" = \"$argv[1]\"\n"
         "end\n"
         "complete -c "
      << program.name << " -f\n";
  for (const Command& command : commands) {
    const std::string when =
        "complete -c " + program.name +
        (&command == &program ? ""
                              : " -n " + fish_quoted("__terrace_at " + fish_quoted(command.path)));
    const std::string verb_when = "complete -c " + program.name + " -n " +
                                  fish_quoted("__terrace_at " + fish_quoted(command.path));
    for (const std::string& verb : command.verbs)
      for (const Command& below : commands)
        if (below.path == command.path + " " + verb)
          out << verb_when << " -a " << verb << " -d " << fish_quoted(below.about) << "\n";
    for (const CommandOption& option : command.options) {
      if (option.positional) {
        if (!option.choices.empty())
          out << verb_when << " -a " << fish_quoted(joined(option.choices, " ")) << "\n";
        continue;
      }
      out << when << " -l " << option.name.substr(2);
      if (option.value == "FILE")
        out << " -r -F";
      else if (!option.choices.empty())
        out << " -x -a " << fish_quoted(joined(option.choices, " "));
      else if (!option.value.empty())
        out << " -x";
      out << " -d " << fish_quoted(option.about) << "\n";
    }
  }
}

}  // namespace terrace::cli
