// What the programs say of a command line or a configuration that cannot be: one line that names
// the mistake, a status that is not 0, and nothing touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/integration/programs.h"

namespace terrace::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// terraced with this configuration must refuse to start.
class DaemonConfiguration : public ::testing::Test {
 protected:
  std::string refuse(const std::string& config_text, std::vector<std::string> more = {}) {
    const std::string file = directory_.file("terraced.toml");
    std::ofstream(file) << config_text;
    std::vector<std::string> arguments = {"--config",   file,
                                          "--socket",   directory_.file("socket"),
                                          "--data-dir", directory_.file("data")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = run_program("terraced", arguments);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.output, "");
    expect_one_line(result.errors);
    EXPECT_FALSE(std::filesystem::exists(directory_.file("socket")));
    EXPECT_FALSE(std::filesystem::exists(directory_.file("data")));
    std::string message = result.errors;
    for (std::size_t at; (at = message.find(directory_.path() + "/")) != std::string::npos;)
      message.erase(at, directory_.path().size() + 1);
    return message;
  }

  TempDir directory_;
};

TEST_F(DaemonConfiguration, ThatDoesNotParseIsRefused) {
  EXPECT_THAT(refuse("[device]\ncapacity = \n"),
              StartsWith("terraced: terraced.toml:2: does not parse: "));
}

TEST_F(DaemonConfiguration, WithAnUnknownKeyIsRefused) {
  EXPECT_EQ(refuse("[device]\nsize = 1\n\n[disk]\ncapacty = 1\n"),
            "terraced: terraced.toml:2: device.size: unknown key, expected one that the commented "
            "example lists; terraced.toml:5: disk.capacty: unknown key, expected perhaps "
            "disk.capacity\n");
}

TEST_F(DaemonConfiguration, WithAnAbsurdValueIsRefused) {
  EXPECT_THAT(refuse("[device]\ncapacity = \"9999TiB\"\n"),
              StartsWith("terraced: terraced.toml:2: device.capacity: found the text '9999TiB', "
                         "expected a size from "));
  EXPECT_EQ(refuse("", {"--set", "disk.enabled=2"}),
            "terraced: --set disk.enabled: found the number 2, expected true or false\n");
}

TEST_F(DaemonConfiguration, ThatIsNotThereIsRefused) {
  const ProcessResult result =
      run_program("terraced", {"--config", directory_.file("absent.toml")});
  EXPECT_EQ(result.status, 1);
  expect_one_line(result.errors);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("absent.toml"), HasSubstr("No such file")));
}

TEST(CommandLine, UnknownFlagsAreOneLine) {
  const std::vector<std::vector<std::string>> command_lines = {
      {"terraced", "--wibble"}, {"terrace", "stats", "--wibble"}, {"terrace", "--wibble", "ls"}};
  for (const auto& line : command_lines) {
    const ProcessResult result = run_program(line[0], {line.begin() + 1, line.end()});
    EXPECT_TRUE(result.status && *result.status != 0) << line[0];
    EXPECT_THAT(result.errors, AllOf(StartsWith(line[0] + ": "), HasSubstr("wibble")));
    expect_one_line(result.errors);
  }
}

TEST(OperatorCommandLine, SaysWhatMayHaveBeenMeant) {
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{"sesions"},
       "terrace: there is no verb 'sesions'; did you mean 'sessions'? ('terrace --help' lists what "
       "there is)\n"},
      {{"frobnicate"},
       "terrace: there is no verb 'frobnicate' ('terrace --help' lists what there is)\n"},
      {{"config", "chek"},
       "terrace: there is no verb 'chek'; did you mean 'check'? ('terrace config --help' lists "
       "what "
       "there is)\n"},
      {{"ls", "--teir=disk"},
       "terrace: there is no option '--teir=disk'; did you mean '--tier'? ('terrace ls --help' "
       "lists "
       "what there is)\n"},
      {{"stats", "now"},
       "terrace: 'now' is one argument too many ('terrace stats --help' lists what there is)\n"}};
  for (const auto& [arguments, message] : mistakes) {
    const ProcessResult result = run_program("terrace", arguments);
    EXPECT_EQ(result.status, 2) << arguments.front();
    EXPECT_EQ(result.errors, message);
  }
  EXPECT_EQ(run_program("terrace", {"inspect"}).status, 2);
}

TEST(CommandLine, HelpNeedsNoDaemon) {
  EXPECT_THAT(run_program("terraced", {"--help"}).output, HasSubstr("--data-dir"));
  EXPECT_THAT(run_program("terrace", {"--help"}).output,
              AllOf(HasSubstr("stats"), HasSubstr("Exit status:"), HasSubstr("\n  3  no daemon ")));
}

TEST(OperatorCommandLine, SaysItsVersion) {
  const ProcessResult result = run_program("terrace", {"--version"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.output, StartsWith("terrace "));
  expect_one_line(result.output);
  EXPECT_EQ(result.errors, "");
  // Both programs are of one build.
  EXPECT_EQ("terraced " + result.output.substr(std::string("terrace ").size()),
            run_program("terraced", {"--version"}).output);
}

TEST(ConfigVerb, ChecksAndShowsWithoutADaemon) {
  const TempDir directory;
  const std::string file = directory.file("terraced.toml");
  std::ofstream(file) << "[device]\ncapacity = \"2MiB\"\n[arena]\nslab = \"1MiB\"\n";
  const std::vector<std::string> of_file = {"--config", file, "--set", "log.level=debug"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), of_file.begin(), of_file.end());
    return run_program("terrace", arguments);
  };
  const ProcessResult checked = with({"config", "check"});
  EXPECT_EQ(checked.status, 0) << checked.errors;
  EXPECT_THAT(checked.output, StartsWith("the configuration is good; 3 of "));

  const ProcessResult shown = with({"config", "show"});
  EXPECT_EQ(shown.status, 0) << shown.errors;
  EXPECT_THAT(shown.output, HasSubstr("\ncapacity = \"2MiB\"  # " + file + ":2\n"));
  EXPECT_THAT(shown.output, HasSubstr("\nlevel = \"debug\"  # --set log.level\n"));
  const ProcessResult json = with({"config", "show", "--json"});
  for (const auto& setting : nlohmann::json::parse(json.output)) {
    if (setting.at("key") == "device.capacity") {
      EXPECT_EQ(setting.at("value"), "2MiB");
    }
    if (setting.at("key") == "disk.enabled") {
      EXPECT_EQ(setting.at("value"), true);
    }
    if (setting.at("key") == "redis.endpoints") {
      EXPECT_EQ(setting.at("value"), nlohmann::json::array());
    }
    if (setting.at("key") == "arena.clean_low") {
      EXPECT_EQ(setting.at("value"), 0.05);
    }
  }
  const auto good = nlohmann::json::parse(with({"config", "check", "--json"}).output);
  EXPECT_EQ(good.at("good"), true);
  EXPECT_EQ(good.at("set"), 3);

  const ProcessResult bad = with({"config", "check", "--set", "disk.capcity=1"});
  EXPECT_EQ(bad.status, 1);
  EXPECT_EQ(bad.output, "");
  EXPECT_EQ(bad.errors,
            "terrace: --set disk.capcity: unknown key, expected perhaps disk.capacity\n");
  const ProcessResult bad_json = with({"config", "check", "--json", "--set", "disk.capcity=1"});
  EXPECT_EQ(bad_json.status, 1);
  EXPECT_EQ(nlohmann::json::parse(bad_json.output).at("problem"),
            "--set disk.capcity: unknown key, expected perhaps disk.capacity");
}

TEST(DoctorVerb, WorksWithoutADaemonAndCountsProblems) {
  const TempDir directory;
  const std::vector<std::string> common = {"--socket", directory.file("absent"),
                                           "doctor",   "--json",
                                           "--set",    "data_dir=" + directory.file("data"),
                                           "--set",    "disk.capacity=64MiB",
                                           "--set",    "device.capacity=16MiB",
                                           "--set",    "arena.slab=1MiB"};
  const auto doctor = [&](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    return run_program("terrace", more);
  };
  const ProcessResult good = doctor({});
  EXPECT_EQ(good.status, 0) << good.output << good.errors;
  const auto report = nlohmann::json::parse(good.output);
  EXPECT_EQ(report.at("problems"), 0);
  std::vector<std::string> checks;
  for (const auto& check : report.at("checks")) checks.push_back(check.at("check"));
  for (const char* check : {"config", "socket", "io_uring", "memlock", "nofile", "memory",
                            "hugepages", "gpu", "data", "space", "speed", "clock"})
    EXPECT_THAT(checks, ::testing::Contains(check));
  // That no daemon runs is a warning.
  EXPECT_EQ(doctor({"--strict", "--no-speed"}).status, 1);

  // Nobody listens at this port of the loopback interface.
  const ProcessResult bad = doctor({"--no-speed", "--set", "redis.endpoints=[\"127.0.0.1:1\"]"});
  EXPECT_EQ(bad.status, 1);
  EXPECT_EQ(bad.errors, "terrace: 1 problem found\n");
  EXPECT_THAT(bad.output, HasSubstr("could not connect to 127.0.0.1:1: Connection refused"));
  const ProcessResult mistaken = doctor({"--no-speed", "--set", "disk.capcity=1"});
  EXPECT_EQ(mistaken.status, 1);
  EXPECT_THAT(mistaken.output, HasSubstr("expected perhaps disk.capacity"));
}

}  // namespace
}  // namespace terrace::integration
