// Words and figures as people read them, and text of others without what commands a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace terrace::cli {

// Without control characters, valid UTF-8: what a client or a server said must not command a
// terminal. What is not printable is a '?'.
std::string printable(std::string_view text);

// The same with the line breaks and tabs of a text to be seen as \n, \r and \t.
std::string visible(std::string_view text);

// The first `max_characters` characters, and "..." where there are more: never half a character.
std::string shortened(std::string_view text, std::size_t max_characters);

// "1 block", "2 blocks".
std::string counted(std::uint64_t count, std::string_view noun);

// How long ago something was: "5 s", "3 min", "7 h", "2 d". Below 0 is 0.
std::string format_age(std::int64_t ms);

// "2026-11-30 21:00:00 UTC"; "" for what no calendar has.
std::string format_utc(std::int64_t unix_ms);

}  // namespace terrace::cli
