// The floor of a tier on Redis: the same values over bare sockets, each received straight into its
// place and sent from it, with nothing verified.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/status.h"
#include "core/unique_fd.h"
#include "storage/redis/redis_options.h"

namespace terrace::bench {

class BareRedis {
 public:
  // How many connections to use, and how many commands are under way on each.
  struct Shape {
    std::size_t connections = 1, depth = 1;
  };
  static constexpr std::size_t max_connections = 8, max_depth = 16;

  // invalid_argument if the endpoint's host is no address, unavailable if nobody answers there.
  static Result<BareRedis> connect(const storage::RedisEndpoint& endpoint);

  // What lies in each value: a part that is the same size in all, then the payload.
  struct Place {
    std::span<std::byte> header, payload;
  };
  using PlaceOf = std::function<Place(std::size_t)>;

  // Milliseconds until the value of each name has been received into its place.
  Result<double> get_all_ms(std::span<const std::string> names, const PlaceOf& place, Shape shape);
  // Until each has been set from it.
  Result<double> set_all_ms(std::span<const std::string> names, const PlaceOf& place, Shape shape);
  // Until the server has said of all names, asked for in one go, whether they exist. io_error if
  // one does not.
  Result<double> exists_ms(std::span<const std::string> names);

 private:
  // One command, and what it is answered with: what is sent before and received behind is the same
  // every time.
  struct Exchange {
    std::string sent, received;  // of text
    std::vector<iovec> out, in;
  };
  using MakeExchange = std::function<void(std::size_t, Exchange&)>;
  using CheckExchange = std::function<bool(const Exchange&)>;

  Result<double> run(std::size_t count, Shape shape, const MakeExchange& make,
                     const CheckExchange& good);

  std::vector<UniqueFd> sockets_;
  UniqueFd epoll_;
};

}  // namespace terrace::bench
