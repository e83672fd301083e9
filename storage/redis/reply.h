// What a server answers, but for values, which never lie in a string.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "storage/redis/redis_options.h"

namespace terrace::storage::redis {

struct Reply {
  enum class Kind : std::uint8_t { status, error, integer, nil, text, list };
  Kind kind = Kind::nil;
  std::string text;  // of status, error and text
  std::int64_t integer = 0;
  std::vector<Reply> elements;
};

// A reply of one line without its type's byte and the line's end: +status, -error, :integer, and
// $-1, *-1 and _, which are nil. Nothing if `line` (with the type's byte) is none of these.
std::optional<Reply> parse_line_reply(std::string_view line);

// What an error reply means for who asked and for the server that gave it.
enum class ErrorKind : std::uint8_t {
  other,
  moved,           // the slot is at another server now: ask there, and learn the map anew
  ask,             // this key is at another server already: ask there once
  try_again,       // the slot is on its way
  wrong_type,      // what is under the key is no string
  refuses_writes,  // out of memory, cannot persist, too few replicas
  read_only,       // a replica: takes no writes
  no_permission,   // this user may not do this
  not_ready,       // loading, no cluster, no master, not logged in: nothing is answered for now
  unknown_command,
};
ErrorKind classify_error(std::string_view text);

struct Redirection {
  std::uint16_t slot = 0;
  RedisEndpoint endpoint;  // an empty host: the one that answered
};
// Of "MOVED 3999 127.0.0.1:6381" and "ASK ...".
std::optional<Redirection> parse_redirection(std::string_view text);

// Fit for messages: one line of printable characters, not too long.
std::string printable(std::string_view text);

}  // namespace terrace::storage::redis
