#include "core/default_paths.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace terrace {
namespace {

class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    if (value != nullptr)
      setenv(name, value, 1);
    else
      unsetenv(name);
  }
  ~EnvironmentVariable() {
    if (old_)
      setenv(name_, old_->c_str(), 1);
    else
      unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

// Makes root somebody else for a while; others stay who they are.
class NotRoot {
 public:
  NotRoot() : was_root_(geteuid() == 0) {
    if (was_root_) {
      EXPECT_EQ(seteuid(65534), 0);
    }
  }
  ~NotRoot() {
    if (was_root_) {
      EXPECT_EQ(seteuid(0), 0);
    }
  }

 private:
  bool was_root_;
};

TEST(DefaultPaths, TheEnvironmentWins) {
  const EnvironmentVariable chosen("TERRACE_SOCKET", "/tmp/chosen.sock");
  EXPECT_EQ(default_socket_path(), "/tmp/chosen.sock");
}

TEST(DefaultPaths, RootUsesTheSystemDirectories) {
  if (geteuid() != 0) GTEST_SKIP() << "not root";
  const EnvironmentVariable chosen("TERRACE_SOCKET", nullptr);
  EXPECT_EQ(default_socket_path(), "/run/terrace/terraced.sock");
  EXPECT_EQ(default_data_dir(), "/var/lib/terrace");
}

TEST(DefaultPaths, OthersUseTheirOwn) {
  const NotRoot user;
  const EnvironmentVariable chosen("TERRACE_SOCKET", "");
  const EnvironmentVariable home("HOME", "/home/u");
  {
    const EnvironmentVariable runtime("XDG_RUNTIME_DIR", "/run/user/7");
    const EnvironmentVariable state("XDG_STATE_HOME", "/home/u/state");
    EXPECT_EQ(default_socket_path(), "/run/user/7/terrace/terraced.sock");
    EXPECT_EQ(default_data_dir(), "/home/u/state/terrace");
  }
  {
    const EnvironmentVariable runtime("XDG_RUNTIME_DIR", nullptr);
    const EnvironmentVariable state("XDG_STATE_HOME", "relative/is/ignored");
    EXPECT_EQ(default_socket_path(), "/home/u/.local/state/terrace/terraced.sock");
    EXPECT_EQ(default_data_dir(), "/home/u/.local/state/terrace");
  }
}

}  // namespace
}  // namespace terrace
