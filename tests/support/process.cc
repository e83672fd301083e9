#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace terrace::test_support {
namespace {

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::abort();
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

UniqueFd open_file(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (fd.get() < 0) give_up(path.c_str());
  return fd;
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& additions) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!additions.contains(text.substr(0, text.find('=')))) merged.push_back(text);
  }
  for (const auto& [name, value] : additions) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  std::ofstream(directory_.file("stdin"), std::ios::binary) << options.input;
  const UniqueFd input = open_file(directory_.file("stdin"), O_RDONLY);
  const UniqueFd output = open_file(directory_.file("stdout"), O_WRONLY | O_CREAT | O_APPEND);
  const UniqueFd errors = open_file(directory_.file("stderr"), O_WRONLY | O_CREAT | O_APPEND);
  // All memory is had before the fork: the child may only make system calls.
  std::vector<std::string> argument_texts = arguments;
  std::vector<std::string> environment_texts = merged_environment(options.environment);
  const std::vector<char*> argv = pointers(argument_texts), envp = pointers(environment_texts);
  const pid_t parent = ::getpid();

  pid_ = ::fork();
  if (pid_ < 0) give_up("fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    if (::dup2(input.get(), 0) < 0 || ::dup2(output.get(), 1) < 0 || ::dup2(errors.get(), 2) < 0)
      ::_exit(127);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  pidfd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (pidfd_.get() < 0) give_up("pidfd_open");
}

Process::~Process() {
  if (status_) return;
  signal(SIGKILL);
  // A stopped process is killed too; one in the kernel may take a moment.
  ::waitpid(pid_, nullptr, 0);
}

void Process::signal(int number) const {
  if (!status_) ::kill(pid_, number);
}

std::optional<int> Process::wait(std::chrono::milliseconds timeout) {
  if (status_) return status_;
  pollfd ended = {pidfd_.get(), POLLIN, 0};
  if (::poll(&ended, 1, static_cast<int>(timeout.count())) <= 0) return std::nullopt;
  int status = 0;
  if (::waitpid(pid_, &status, 0) != pid_) give_up("waitpid");
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

std::string Process::output() const { return read_file(directory_.file("stdout")); }
std::string Process::errors() const { return read_file(directory_.file("stderr")); }

ProcessResult run_process(const std::vector<std::string>& arguments, const ProcessOptions& options,
                          std::chrono::milliseconds timeout) {
  Process process(arguments, options);
  const std::optional<int> status = process.wait(timeout);
  return {status, process.output(), process.errors()};
}

}  // namespace terrace::test_support
