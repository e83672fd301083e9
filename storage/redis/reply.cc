#include "storage/redis/reply.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "storage/redis/slot_hash.h"

namespace terrace::storage::redis {

namespace {

constexpr std::size_t max_message_bytes = 160;

template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [at, failure] = std::from_chars(text.data(), end, number);
  return failure == std::errc() && at == end && !text.empty();
}

constexpr std::array<std::pair<std::string_view, ErrorKind>, 16> kinds = {{
    {"MOVED", ErrorKind::moved},
    {"ASK", ErrorKind::ask},
    {"TRYAGAIN", ErrorKind::try_again},
    {"WRONGTYPE", ErrorKind::wrong_type},
    {"OOM", ErrorKind::refuses_writes},
    {"MISCONF", ErrorKind::refuses_writes},
    {"NOREPLICAS", ErrorKind::refuses_writes},
    {"READONLY", ErrorKind::read_only},
    {"LOADING", ErrorKind::not_ready},
    {"BUSY", ErrorKind::not_ready},
    {"CLUSTERDOWN", ErrorKind::not_ready},
    {"MASTERDOWN", ErrorKind::not_ready},
    {"NOAUTH", ErrorKind::not_ready},
    {"WRONGPASS", ErrorKind::not_ready},
    {"NOPERM", ErrorKind::no_permission},
    {"DENIED", ErrorKind::not_ready},
}};

}  // namespace

std::optional<Reply> parse_line_reply(std::string_view line) {
  if (line.empty()) return std::nullopt;
  const std::string_view rest = line.substr(1);
  Reply reply;
  switch (line[0]) {
    case '+':
      reply.kind = Reply::Kind::status;
      reply.text = rest;
      return reply;
    case '-':
      reply.kind = Reply::Kind::error;
      reply.text = rest;
      return reply;
    case ':':
      reply.kind = Reply::Kind::integer;
      if (!parse_number(rest, reply.integer)) return std::nullopt;
      return reply;
    case '$':
    case '*':
      if (rest != "-1") return std::nullopt;
      return reply;
    case '_':
      return reply;
    default:
      return std::nullopt;
  }
}

ErrorKind classify_error(std::string_view text) {
  const std::string_view word = text.substr(0, text.find(' '));
  for (const auto& [name, kind] : kinds)
    if (word == name) return kind;
  if (text.starts_with("ERR unknown command")) return ErrorKind::unknown_command;
  if (text.starts_with("ERR max number of clients")) return ErrorKind::not_ready;
  return ErrorKind::other;
}

std::optional<Redirection> parse_redirection(std::string_view text) {
  const std::size_t first = text.find(' ');
  if (first == std::string_view::npos) return std::nullopt;
  const std::size_t second = text.find(' ', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  Redirection redirection;
  if (!parse_number(text.substr(first + 1, second - first - 1), redirection.slot) ||
      redirection.slot >= slot_count)
    return std::nullopt;
  // host:port; the host may be empty, or an address with colons and no brackets.
  const std::string_view address = text.substr(second + 1);
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos ||
      !parse_number(address.substr(colon + 1), redirection.endpoint.port) ||
      redirection.endpoint.port == 0)
    return std::nullopt;
  redirection.endpoint.host = address.substr(0, colon);
  return redirection;
}

std::string printable(std::string_view text) {
  std::string out(text.substr(0, max_message_bytes));
  std::ranges::replace_if(
      out, [](unsigned char c) { return c < ' ' || c >= 0x7f; }, '?');
  return out;
}

}  // namespace terrace::storage::redis
