// Whatever a configuration file holds, it is either taken or refused with one line that names the
// place; nothing crashes, and nothing takes long. Seeded: TERRACE_CONFIG_SEED repeats a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <sstream>

#include "config/daemon_config.h"
#include "config/worker_config.h"
#include "tests/config/config_file.h"

namespace terrace::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Load = std::function<Status(const std::filesystem::path&)>;

Status load_as_daemon(const std::filesystem::path& file) {
  const auto config = load_daemon_config(file, {});
  return config ? Status() : config.error();
}

Status load_as_worker(const std::filesystem::path& file) {
  const auto config = load_worker_config(file, {});
  return config ? Status() : config.error();
}

std::string example_file(const std::string& name) {
  std::ifstream file(std::filesystem::path(TERRACE_CONFIG_DIR) / name);
  return {std::istreambuf_iterator<char>(file), {}};
}

// An error must name a line of the file, or a key that a rule is about, and be one line itself.
void expect_told(const Status& status, const std::filesystem::path& path) {
  if (status.ok()) return;
  EXPECT_NE(status.code(), StatusCode::internal);
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
  EXPECT_TRUE(status.message().starts_with(path.string() + ":") ||
              status.message().find(": found ") != std::string::npos ||
              status.code() == StatusCode::io_error)
      << status.message();
}

// Files of one directory, one after the other.
class HostileConfig : public ::testing::Test {
 protected:
  Status load(const Load& load_file, const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    const Status status = load_file(path_);
    expect_told(status, path_);
    return status;
  }

 private:
  ConfigFile file_{""};
  const std::filesystem::path path_ = file_.path();
};

class Mutator {
 public:
  explicit Mutator(std::string example) : example_(std::move(example)) {
    std::istringstream text(example_);
    for (std::string line; std::getline(text, line);) lines_.push_back(line);
  }

  std::string operator()(std::minstd_rand& random) const {
    std::string text = example_;
    for (std::size_t changes = 1 + random() % 4; changes > 0; --changes) change(text, random);
    return text;
  }

 private:
  void change(std::string& text, std::minstd_rand& random) const {
    static const std::string pieces[] = {"\"",
                                         "'''",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         "=",
                                         ".",
                                         "\n",
                                         "-1",
                                         "nan",
                                         "inf",
                                         "1e999",
                                         "0x7f",
                                         "99999999999999999999",
                                         "true",
                                         "1979-05-27",
                                         "\\u0000",
                                         "\\ud800",
                                         "\xff",
                                         "\r",
                                         "#",
                                         "[[redis]]",
                                         "\"9EiB\"",
                                         "device.",
                                         "= {a = {b = [",
                                         "tenants.\"x.y\".disk = 1\n"};
    const std::size_t at = random() % (text.size() + 1);
    switch (random() % 6) {
      case 0:
        text.insert(at, pieces[random() % std::size(pieces)]);
        break;
      case 1:
        text.erase(at, random() % 40);
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      case 3:  // a line twice, or where it does not belong
        text.insert(
            text.find('\n', at) == std::string::npos ? text.size() : text.find('\n', at) + 1,
            lines_[random() % lines_.size()] + "\n");
        break;
      case 4:
        text.resize(at);
        break;
      default: {  // another value
        const std::size_t equals = text.find("= ", at);
        if (equals == std::string::npos) break;
        const std::size_t end = std::min(text.find('\n', equals), text.size());
        text.replace(equals + 2, end - equals - 2, pieces[random() % std::size(pieces)]);
      }
    }
  }

  std::string example_;
  std::vector<std::string> lines_;
};

TEST_F(HostileConfig, MutationsOfTheExamplesAreTakenOrToldApart) {
  const char* const given = std::getenv("TERRACE_CONFIG_SEED");
  const auto seed = given != nullptr ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10))
                                     : std::random_device()();
  SCOPED_TRACE("TERRACE_CONFIG_SEED=" + std::to_string(seed));
  std::minstd_rand random(seed);
  const std::pair<Mutator, Load> sources[] = {
      {Mutator(example_file("terraced.toml")), load_as_daemon},
      {Mutator(example_file("worker.toml")), load_as_worker}};
  constexpr int rounds = 400;
  std::size_t refused = 0;
  for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round) {
    const auto& [mutator, load_file] = sources[round % 2];
    const std::string text = mutator(random);
    refused += !load(load_file, text).ok();
    if (::testing::Test::HasFailure()) ADD_FAILURE() << text;
  }
  EXPECT_GT(refused, 0u);
  EXPECT_LT(refused, std::size_t{rounds});
}

// Every option with what no option takes, and with what only some do.
TEST_F(HostileConfig, EachOptionRefusesWhatItCannotBe) {
  std::vector<Setting> settings;
  ASSERT_TRUE(load_daemon_config(std::nullopt, {}, &settings));
  ASSERT_GT(settings.size(), 40u);
  const std::string long_text(4000, 'x');
  const std::vector<std::string> never = {
      "1979-05-27", "[1, 2]", "[[]]", "{}", "{a = 1}", "-1", "-9223372036854775808", "nan", "-inf"};
  const std::vector<std::string> maybe = {"9223372036854775807",
                                          "inf",
                                          "1e308",
                                          "\"\"",
                                          "\"" + long_text + "\"",
                                          "\"\\u0000\"",
                                          "\"\\u202e\"",
                                          "[\"a\", \"\"]",
                                          "\"18446744073709551616\"",
                                          "\"-1\"",
                                          "\"1e9GiB\"",
                                          "true",
                                          "\"a\\nb\""};
  for (const Setting& setting : settings) {
    const auto told = [&](const std::string& value) {
      const Status status = load(load_as_daemon, setting.key + " = " + value + "\n");
      if (!status.ok()) {
        // Some name the rule's other half.
        EXPECT_THAT(status.message(), HasSubstr(setting.key.substr(0, setting.key.find('.'))))
            << value;
      }
      return status;
    };
    for (const std::string& value : never) {
      const Status status = told(value);
      EXPECT_EQ(status.code(), StatusCode::invalid_argument) << setting.key << " = " << value;
      EXPECT_THAT(status.message(), HasSubstr(":1: " + setting.key)) << value;
    }
    for (const std::string& value : maybe) (void)told(value);
    // A key that is there twice.
    if (setting.secret) continue;  // its value is not told
    const std::string line = setting.key + " = " + setting.value + "\n";
    EXPECT_THAT(load(load_as_daemon, line + line).message(), HasSubstr(":2: does not parse: "))
        << setting.key;
  }
}

// What would take a parser, or us, down or long.
TEST_F(HostileConfig, WhatIsTooMuchIsRefused) {
  const auto message = [&](const std::string& text) {
    return load(load_as_daemon, text).message();
  };
  const auto repeated = [](const std::string& piece, std::size_t times) {
    std::string text;
    for (std::size_t i = 0; i < times; ++i) text += piece;
    return text;
  };
  EXPECT_THAT(message(repeated("a.", 300'000) + "a = 1"), HasSubstr("longer than 4096 bytes"));
  EXPECT_THAT(message("x = 1\ny = \"" + std::string(100'000, 'y') + "\""),
              HasSubstr("test.toml:2: does not parse: the line is longer than 4096 bytes"));
  EXPECT_THAT(message(repeated("a.", 2000) + "a = 1"), HasSubstr("sections in each other"));
  EXPECT_THAT(message("[" + repeated("a.", 2000) + "a]"), HasSubstr("sections in each other"));
  EXPECT_THAT(message("a = " + repeated("[", 4000)), HasSubstr("does not parse: "));
  EXPECT_THAT(message("a = " + repeated("{a=", 1300)), HasSubstr("does not parse: "));
  EXPECT_THAT(message(repeated(repeated("a.", 1500) + "a = [{\n", 300)), HasSubstr(": "));
  std::string many, tenants;
  for (int i = 0; many.size() < max_config_file_bytes - 20; ++i)
    many += "k" + std::to_string(i) + "=1\n";
  EXPECT_THAT(message(many), HasSubstr("found more than 4096 keys"));
  for (int i = 0; i < 1500; ++i) tenants += "[tenants.t" + std::to_string(i) + "]\ndisk = 1\n";
  EXPECT_THAT(message(tenants), HasSubstr("tenants, expected at most"));
  // Matching a host of so many letters would take the stack with it.
  std::string hosts = "redis.endpoints = [\"\"\"";
  for (int i = 0; i < 200; ++i) hosts += std::string(4000, 'h') + "\\\n";
  hosts += "\"\"\"";
  EXPECT_THAT(message(hosts + "]\n"), HasSubstr("redis.endpoints: found what is no host and port"));
}

}  // namespace
}  // namespace terrace::config
