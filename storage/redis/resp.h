// The protocol: how commands are written, and replies of more than one line read, by hiredis.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/status.h"
#include "storage/redis/reply.h"

struct redisReader;

namespace terrace::storage::redis {

// Appends a command with its arguments, which may hold any bytes.
void append_command(std::string& out, std::span<const std::string_view> arguments);

// Appends "SET key <value of value_bytes>" up to where the value begins, and to `suffix` what
// follows the value: its end, and PX with `ttl_ms` unless that is 0.
void append_set(std::string& out, std::string& suffix, std::string_view key,
                std::uint64_t value_bytes, std::int64_t ttl_ms);

// Reads one reply of any kind at a time, such as a list of lists. Not for values of blocks.
class ReplyReader {
 public:
  ReplyReader();
  ~ReplyReader();
  ReplyReader(ReplyReader&&) = delete;

  struct Progress {
    std::size_t consumed = 0;    // of the bytes given: all, or up to the end of the reply
    std::optional<Reply> reply;  // once it is whole
  };
  // corruption if the bytes are no reply, or one that is longer than any that is asked for here.
  Result<Progress> read(std::string_view bytes);
  // Forgets what was read of a reply.
  void reset();

 private:
  redisReader* reader_ = nullptr;
  std::size_t fed_bytes_ = 0;
};

}  // namespace terrace::storage::redis
