#include "client/cli/generate/manual.h"

#include <cctype>
#include <ostream>

#include "client/cli/exit_codes.h"

namespace terrace::cli {
namespace {

// As text of roff: nothing in it is a command or an escape.
std::string roff(const std::string& text) {
  std::string escaped;
  if (!text.empty() && (text[0] == '.' || text[0] == '\'')) escaped = "\\&";
  for (const char c : text) {
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else
      escaped += c;
  }
  return escaped;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

std::string sentence(const std::string& about) {
  std::string text = about;
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  if (!text.empty() && text.back() != '.') text += '.';
  return roff(text);
}

std::string with_value(const CommandOption& option) {
  if (option.positional) return italic(option.name);
  return bold(option.name) + (option.value.empty() ? "" : " " + italic(option.value));
}

void print_options(const Command& command, std::ostream& out) {
  for (const CommandOption& option : command.options) {
    // Every verb has it.
    if (option.name == "--help" && command.path != command.name) continue;
    out << ".TP\n" << with_value(option) << "\n" << sentence(option.about);
    if (!option.choices.empty()) {
      out << "\nOne of";
      for (std::size_t i = 0; i < option.choices.size(); ++i)
        out << (i == 0 ? " " : ", ") << bold(option.choices[i]);
      out << ".";
    }
    out << "\n";
  }
}

struct Example {
  const char* command;
  const char* about;
};
constexpr Example examples[] = {
    {"terrace doctor --config /etc/terrace/terraced.toml", "What is wrong here, and what to do."},
    {"terrace tree --model model.gguf", "Prefixes as they branch, as text."},
    {"terrace why --prompt-file question.txt --system-file system.txt --model model.gguf",
     "What a question would find in the cache, and why not more."},
    {"terrace ls --tier disk --sort last-use --reverse --limit 20",
     "What lies on disk and was unused the longest."},
    {"terrace warm --hottest 20", "Brings what was used last back after a restart."},
    {"terrace top --json --interval 10 >> figures.jsonl", "A line of figures each ten seconds."},
};

}  // namespace

void print_manual(const std::vector<Command>& commands, const std::string& version,
                  std::ostream& out) {
  const Command& program = commands.front();
  out << ".TH TERRACE 1 \"\" \"terrace " << roff(version) << "\" \"Terrace\"\n"
      << ".SH NAME\n"
         "terrace \\- see and move what a running terraced has cached\n"
         ".SH SYNOPSIS\n"
      << bold("terrace") << " [" << italic("options") << "] " << italic("verb") << " ["
      << italic("arguments") << "]\n"
      << ".SH DESCRIPTION\n"
      << sentence(program.about)
      << "\nKeys may be shortened to their first 6 digits or more where no other block's key "
         "begins "
         "so; spaces may be named by their label.\n"
         "What takes something away asks first, or wants "
      << bold("--yes") << " where nobody can be asked.\n"
      << "With " << bold("--json") << " verbs print JSON.\n"
      << ".SH OPTIONS\n";
  print_options(program, out);
  out << ".SH VERBS\n";
  for (const Command& command : commands) {
    // A verb with others below it does nothing alone.
    if (!command.verbs.empty()) continue;
    const std::string words = command.path.substr(program.name.size() + 1);
    out << ".SS " << bold(words);
    for (const CommandOption& option : command.options)
      if (option.positional)
        out << " " << (option.required ? "" : "[") << italic(option.name)
            << (option.required ? "" : "]");
    out << "\n" << sentence(command.about) << "\n";
    print_options(command, out);
  }
  out << ".SH EXIT STATUS\n";
  for (const ExitCode& code : exit_codes)
    out << ".TP\n" << bold(std::to_string(code.value)) << "\n" << sentence(code.meaning) << "\n";
  out << ".SH ENVIRONMENT\n.TP\n"
      << bold("TERRACE_SOCKET") << "\n"
      << roff("Where the daemon listens, unless --socket or --connect says otherwise.") << "\n";
  for (const CommandOption& option : program.options)
    if (!option.environment.empty())
      out << ".TP\n"
          << bold(option.environment) << "\n"
          << roff("As " + option.name + ", unless that is given.") << "\n";
  out << ".SH FILES\n.TP\n"
      << italic("/run/terrace/terraced.sock") << "\n"
      << roff(
             "The daemon's socket where it runs as root; of other users it is "
             "$XDG_RUNTIME_DIR/terrace/terraced.sock.")
      << "\n.SH EXAMPLES\n";
  for (const Example& example : examples)
    out << ".TP\n" << bold(example.command) << "\n" << roff(example.about) << "\n";
  out << ".SH SEE ALSO\n" << bold("terraced") << "(8)\n";
}

}  // namespace terrace::cli
