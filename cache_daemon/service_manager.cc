#include "cache_daemon/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace terrace::daemon {
namespace {

std::string take_from_environment(const char* name) {
  const char* const value = std::getenv(name);
  const std::string taken = value ? value : "";
  ::unsetenv(name);
  return taken;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
  ServiceManager manager;
  const std::string address = take_from_environment("NOTIFY_SOCKET");
  const auto watchdog_us = number(take_from_environment("WATCHDOG_USEC"));
  const auto watchdog_pid = number(take_from_environment("WATCHDOG_PID"));
  const bool usable = address.size() > 1 && (address[0] == '/' || address[0] == '@') &&
                      address.size() < sizeof(sockaddr_un::sun_path);
  if (!usable) return manager;
  manager.address_ = address;
  manager.fd_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool for_us = !watchdog_pid || *watchdog_pid == static_cast<std::uint64_t>(::getpid());
  if (watchdog_us && *watchdog_us > 1 && for_us)
    manager.alive_interval_ = std::chrono::microseconds(*watchdog_us / 2);
  return manager;
}

void ServiceManager::tell(const std::string& lines) const {
  if (fd_.get() < 0) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, address_.data(), address_.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  [[maybe_unused]] const ssize_t sent =
      ::sendto(fd_.get(), lines.data(), lines.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), size);
}

void ServiceManager::reloading() const {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t now_us = std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
  tell("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(now_us));
}

}  // namespace terrace::daemon
