// Verbs about this program itself: completions of its command line, its manual.
#include <iostream>

#include "client/cli/generate/completion.h"
#include "client/cli/generate/manual.h"
#include "client/cli/program.h"

namespace terrace::cli {
namespace {

struct CompletionOptions {
  std::string shell;
};

Status run_completion(const Program& program, const CompletionOptions& options) {
  const auto print = options.shell == "bash"  ? print_bash_completion
                     : options.shell == "zsh" ? print_zsh_completion
                                              : print_fish_completion;
  print(command_tree(program.app), std::cout);
  return {};
}

Status run_manual(const Program& program, const NoOptions&) {
  print_manual(command_tree(program.app), TERRACE_VERSION, std::cout);
  return {};
}

}  // namespace

void add_generate_verbs(Program& program) {
  auto options = std::make_shared<CompletionOptions>();
  program
      .add_verb(program.app, "completion", "a script that completes this command line in a shell",
                options, run_completion)
      ->add_option("shell", options->shell, "whose")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  program.add_verb(program.app, "manual", "the manual page, in roff: terrace manual | man -l -",
                   std::make_shared<NoOptions>(), run_manual);
}

}  // namespace terrace::cli
