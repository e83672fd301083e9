// The C API, used from C: c_api_check.c, and the example that connectors are copied from.
#include <sstream>

#include "tests/client/daemon_fixture.h"
#include "tests/support/process.h"

namespace terrace::client {
namespace {

class CApiTest : public DaemonFixture {
 protected:
  test_support::ProcessResult run(const std::string& program,
                                  std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.begin(), test_support::program_directory() + "/" + program);
    test_support::ProcessOptions options;
    options.environment["TERRACE_SOCKET"] = socket_path();
    return test_support::run_process(arguments, options);
  }
};

TEST_F(CApiTest, DoesWhatItsHeaderSays) {
  start_daemon();
  const auto result = run("c_api_check", {socket_path()});
  EXPECT_EQ(result.status, 0) << result.errors;
}

TEST_F(CApiTest, FailsOpenWithoutADaemon) {
  const auto result = run("c_api_check", {socket_path(), "absent"});
  EXPECT_EQ(result.status, 0) << result.errors;
}

TEST_F(CApiTest, TheExampleFindsWhatItPut) {
  EXPECT_EQ(run("connector_example").output, "0 of 6 blocks were cached\n");
  start_daemon();
  EXPECT_EQ(run("connector_example").output, "0 of 6 blocks were cached\n");
  EXPECT_EQ(run("connector_example").output, "6 of 6 blocks were cached\n");
}

TEST_F(CApiTest, PythonUsesIt) {
#ifdef TERRACE_SANITIZED
  GTEST_SKIP() << "a sanitizer's runtime must be in the program that loads the library";
#endif
  start_daemon();
  test_support::ProcessOptions options;
  options.environment["TERRACE_LIBRARY"] = TERRACE_C_LIBRARY;
  const auto result = test_support::run_process(
      {"/usr/bin/env", "python3", TERRACE_PYTHON_CHECK, socket_path()}, options);
  EXPECT_EQ(result.status, 0) << result.errors;
}

// Whatever else the library is made of must not get in the way of an engine's own libraries.
TEST_F(CApiTest, NothingElseIsVisible) {
  const auto result = test_support::run_process(
      {"/usr/bin/nm", "-D", "--defined-only", "--format=just-symbols", TERRACE_C_LIBRARY});
  ASSERT_EQ(result.status, 0) << result.errors;
  std::istringstream names(result.output);
  std::size_t functions = 0;
  for (std::string name; std::getline(names, name);) {
    if (name.starts_with("TERRACE_1")) continue;  // the version itself
    EXPECT_TRUE(name.starts_with("terrace_")) << name;
    ++functions;
  }
  EXPECT_GT(functions, 10u);
}

}  // namespace
}  // namespace terrace::client
