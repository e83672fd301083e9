// Tells the service manager (systemd, or whoever listens to the same datagrams) how the daemon is:
// when it is ready, that it lives, what it does while it stops.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "core/unique_fd.h"

namespace terrace::daemon {

// Does nothing where nobody wants to know. Not thread-safe.
class ServiceManager {
 public:
  // Out of NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, which are taken out of the environment:
  // they are meant for this process.
  static ServiceManager from_environment();

  ServiceManager() = default;

  // One line each, such as "READY=1"; several are one message. Never blocks: what the manager does
  // not take at once is lost.
  void tell(const std::string& lines) const;

  void ready() const { tell("READY=1\nSTATUS=ready"); }
  void reloading() const;
  void stopping() const { tell("STOPPING=1\nSTATUS=draining"); }
  void status(const std::string& text) const { tell("STATUS=" + text); }
  void alive() const { tell("WATCHDOG=1"); }

  // How often alive() must be called; twice as often as the manager wants it. Nothing: not at all.
  std::optional<std::chrono::microseconds> alive_interval() const { return alive_interval_; }

 private:
  std::string address_;  // of a Unix datagram socket; '@' first: an abstract one
  UniqueFd fd_;
  std::optional<std::chrono::microseconds> alive_interval_;
};

}  // namespace terrace::daemon
