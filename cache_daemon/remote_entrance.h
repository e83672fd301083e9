// Where clients of other hosts come in: accepts TCP, with TLS, on a thread of its own. Handshakes
// and encryption take a core's time, which the deciding thread has not; that one gets a socket to
// plain bytes for each connection.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/function.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "config/daemon_config.h"
#include "core/status.h"
#include "core/unique_fd.h"

namespace terrace::daemon {

class RemoteEntrance {
 public:
  struct Arrival {
    UniqueFd stream;          // of what was decrypted; one end of a pair of Unix sockets
    std::string certificate;  // common name of the client's certificate; "": it showed none
    std::string address;
  };

  // Listens as `options` says, which must outlive it. `arrived` is called on the calling thread's
  // loop for each connection whose handshake is over. At most `max_connections` at a time; a
  // handshake may take `limit`. io_error if the address cannot be had, or what reading the files of
  // TLS fails with.
  static Result<std::unique_ptr<RemoteEntrance>> open(kj::AsyncIoContext& io,
                                                      const config::TcpOptions& options,
                                                      std::size_t max_connections,
                                                      std::chrono::milliseconds limit,
                                                      kj::Function<void(Arrival)> arrived);
  // Ends every connection and waits for the thread.
  ~RemoteEntrance();
  RemoteEntrance(const RemoteEntrance&) = delete;
  RemoteEntrance& operator=(const RemoteEntrance&) = delete;

  std::uint16_t port() const { return port_; }
  // Accepts no more; connections stay.
  void close();
  // Shows, and asks for, what the files of TLS hold now: to whoever connects from then on. What is
  // wrong with them is a line of the log, and then everything stays as it is.
  void read_files_again();

 private:
  class Server;  // lives on the thread
  struct Options {
    const config::TcpOptions& tcp;
    std::size_t max_connections;
    std::chrono::milliseconds limit;
  };

  RemoteEntrance(kj::AsyncIoContext& io, Options options, UniqueFd listening, std::uint16_t port,
                 kj::Function<void(Arrival)> arrived);
  Status start(kj::Timer& timer);
  void run();
  void post(Arrival arrival);  // from the thread
  kj::Promise<void> take_arrivals_forever();

  const Options options_;
  UniqueFd listening_;
  std::uint16_t port_;
  kj::Function<void(Arrival)> arrived_;
  UniqueFd arrivals_fd_;  // an eventfd: something is in arrivals_
  UniqueFd control_fd_;   // an eventfd: to the thread, to look at what is wanted of it
  kj::Own<kj::UnixEventPort::FdObserver> observer_;
  std::mutex mutex_;
  std::vector<Arrival> arrivals_;
  bool accepting_ = true, running_ = true, files_changed_ = false;
  std::thread thread_;
  kj::Promise<void> taking_ = nullptr;
};

}  // namespace terrace::daemon
