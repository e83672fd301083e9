// What the programs say of their command lines elsewhere than in --help: manual pages, completions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "tests/integration/programs.h"

namespace terrace::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// The words that --help of a program or verb lists in front of its lines: options and verbs.
std::set<std::string> words_of_help(const std::string& name, std::vector<std::string> verb) {
  verb.push_back("--help");
  const ProcessResult help = run_program(name, verb);
  EXPECT_EQ(help.status, 0) << help.errors;
  std::set<std::string> words;
  bool verbs = false;
  std::istringstream lines(help.output);
  for (std::string line; std::getline(lines, line);) {
    if (line == "Subcommands:") verbs = true;
    if (line.starts_with("Exit status")) break;
    if (!line.starts_with("  ") || line.size() < 3 || line[2] == ' ') continue;
    std::istringstream front(line);
    std::string word;
    front >> word;
    if (const auto at = word.find("--"); at != std::string::npos)
      words.insert(word.substr(at));
    else if (verbs)
      words.insert(word);
  }
  return words;
}

std::set<std::string> verbs_in(const std::set<std::string>& words) {
  std::set<std::string> verbs;
  for (const std::string& word : words)
    if (!word.starts_with("-")) verbs.insert(word);
  return verbs;
}

std::string in_roff(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '-' ? std::string("\\-") : std::string(1, c);
  return escaped;
}

void expect_good_roff(const std::string& page) {
  const ProcessResult checked = run_process(
      {"/bin/sh", "-c", "command -v groff >/dev/null || exit 77; groff -man -z -ww -Tutf8"},
      {.input = page, .environment = {}});
  if (checked.status == 77) return;
  EXPECT_EQ(checked.status, 0);
  EXPECT_EQ(checked.errors, "");
}

TEST(Manual, NamesEveryVerbAndOptionOfTerrace) {
  const ProcessResult manual = run_program("terrace", {"manual"});
  ASSERT_EQ(manual.status, 0) << manual.errors;
  expect_good_roff(manual.output);
  const auto expect_words = [&](const std::vector<std::string>& verb) {
    const auto words = words_of_help("terrace", verb);
    for (const std::string& word : words) {
      if (word == "--help" && !verb.empty()) continue;
      // A verb with others below it is named with each of them.
      EXPECT_THAT(manual.output, HasSubstr(in_roff(word))) << word;
    }
    return words;
  };
  const auto words = expect_words({});
  EXPECT_THAT(words, IsSupersetOf({"--socket", "--version", "stats", "doctor", "config", "warm"}));
  for (const std::string& verb : verbs_in(words)) {
    EXPECT_THAT(manual.output, HasSubstr(".SS \\fB" + in_roff(verb)));
    for (const std::string& below : verbs_in(expect_words({verb}))) {
      EXPECT_THAT(manual.output, HasSubstr(".SS \\fB" + verb + " " + below));
      expect_words({verb, below});
    }
  }
  for (const char* variable :
       {"TERRACE_SOCKET", "TERRACE_TOKEN_FILE", "TERRACE_CA_FILE", "TERRACE_CERTIFICATE_FILE",
        "TERRACE_KEY_FILE", "TERRACE_SERVER_NAME"})
    EXPECT_THAT(manual.output, HasSubstr("\n\\fB" + std::string(variable) + "\\fR\n"));
  EXPECT_THAT(manual.output, HasSubstr(".SH EXIT STATUS\n.TP\n\\fB0\\fR\nDone"));
}

TEST(Manual, NamesEveryOptionOfTerraced) {
  std::ifstream file(TERRACE_DAEMON_MANUAL);
  const std::string page(std::istreambuf_iterator<char>(file), {});
  expect_good_roff(page);
  const auto words = words_of_help("terraced", {});
  EXPECT_THAT(words, IsSupersetOf({"--config", "--set"}));
  EXPECT_THAT(page, HasSubstr("\\fI" TERRACE_INSTALLED_CONFIG "\\fR"));
  EXPECT_THAT(page, Not(HasSubstr("@")));
  for (const std::string& word : words) EXPECT_THAT(page, HasSubstr("\\fB" + in_roff(word)));
}

// What bash offers behind these words, the last of which is being typed.
std::set<std::string> completions(const std::string& script,
                                  const std::vector<std::string>& words) {
  std::string array;
  for (const std::string& word : words) array += " '" + word + "'";
  const ProcessResult result =
      run_process({"/bin/bash", "-c",
                   "set -eu; source /dev/stdin; COMP_WORDS=(terrace" + array +
                       "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _terrace || true; printf '%s\\n' "
                       "\"${COMPREPLY[@]:-}\""},
                  {.input = script, .environment = {}});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.errors, "");
  std::set<std::string> offered;
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) offered.insert(line);
  return offered;
}

TEST(Completion, OfBashKnowsVerbsOptionsAndTheirWords) {
  const ProcessResult script = run_program("terrace", {"completion", "bash"});
  ASSERT_EQ(script.status, 0) << script.errors;
  EXPECT_EQ(completions(script.output, {""}), [] {
    auto words = words_of_help("terrace", {});
    return words;
  }());
  EXPECT_THAT(completions(script.output, {"st"}), UnorderedElementsAre("stats"));
  EXPECT_THAT(completions(script.output, {"--socket", "/x", "config", ""}),
              IsSupersetOf({"check", "show"}));
  EXPECT_THAT(completions(script.output, {"config", "show", "--j"}),
              UnorderedElementsAre("--json"));
  EXPECT_THAT(completions(script.output, {"ls", "--tier", "d"}),
              UnorderedElementsAre("device", "disk"));
  EXPECT_THAT(completions(script.output, {"ls", "--ti"}), UnorderedElementsAre("--tier"));
  EXPECT_THAT(completions(script.output, {"ls", "--limit", ""}), IsEmpty());
  EXPECT_THAT(completions(script.output, {"completion", "b"}), UnorderedElementsAre("bash"));
  const TempDir directory;
  std::ofstream(directory.file("model.gguf")) << "x";
  EXPECT_THAT(completions(script.output, {"tree", "--model", directory.path() + "/mo"}),
              UnorderedElementsAre(directory.file("model.gguf")));
}

// Zsh's own functions print what they are given.
TEST(Completion, OfZshKnowsVerbsOptionsAndTheirWords) {
  const ProcessResult script = run_program("terrace", {"completion", "zsh"});
  ASSERT_EQ(script.status, 0) << script.errors;
  const auto offered = [&](const std::string& words) {
    const ProcessResult result = run_process(
        {"/bin/sh", "-c",
         "command -v zsh >/dev/null || exit 77; exec zsh -f -c \"compdef() { :; }; source "
         "/dev/stdin; "
         "_describe() { print -l -- \\${(P)2} }; _files() { print FILES }; _message() { :; }; "
         "compadd() { shift; print -l -- \\$@ }; words=(terrace " +
             words + "); CURRENT=\\$#words; _terrace\""},
        {.input = script.output, .environment = {}});
    std::set<std::string> found = {std::to_string(result.status.value_or(-1))};
    std::istringstream lines(result.output);
    for (std::string line; std::getline(lines, line);) found.insert(line.substr(0, line.find(':')));
    return found;
  };
  if (offered("''").contains("77")) GTEST_SKIP() << "there is no zsh here";
  EXPECT_THAT(offered("''"), IsSupersetOf({"0", "stats", "config", "--socket"}));
  EXPECT_THAT(offered("--socket /x config ''"),
              IsSupersetOf({"0", "check", "show", "--token-file"}));
  EXPECT_THAT(offered("ls ''"), IsSupersetOf({"0", "--tier", "--json", "--socket", "--ca-file"}));
  EXPECT_THAT(offered("ls --tier ''"),
              UnorderedElementsAre("0", "device", "host", "disk", "redis"));
  EXPECT_THAT(offered("tree --model ''"), UnorderedElementsAre("0", "FILES"));
  EXPECT_THAT(offered("ls --token-file ''"), UnorderedElementsAre("0", "FILES"));
  EXPECT_THAT(offered("completion ''"), IsSupersetOf({"0", "bash", "zsh", "fish"}));
}

// The shells may not be there: that their scripts name everything can be seen all the same.
TEST(Completion, OfZshAndFishNamesEveryVerbAndOption) {
  for (const char* shell : {"zsh", "fish"}) {
    const ProcessResult script = run_program("terrace", {"completion", shell});
    ASSERT_EQ(script.status, 0) << script.errors;
    for (const std::string& verb : verbs_in(words_of_help("terrace", {})))
      for (const std::string& word : words_of_help("terrace", {verb}))
        EXPECT_NE(script.output.find(
                      word.starts_with("--") && shell[0] == 'f' ? "-l " + word.substr(2) : word),
                  std::string::npos)
            << shell << ": " << word;
    const ProcessResult checked =
        run_process({"/bin/sh", "-c",
                     "command -v \"$0\" >/dev/null || exit 77; exec \"$0\" -n /dev/stdin", shell},
                    {.input = script.output, .environment = {}});
    if (checked.status == 77) continue;
    EXPECT_EQ(checked.status, 0) << checked.errors;
  }
  EXPECT_EQ(run_program("terrace", {"completion", "csh"}).status, 2);
}

}  // namespace
}  // namespace terrace::integration
