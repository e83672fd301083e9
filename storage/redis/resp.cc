#include "storage/redis/resp.h"

#include <hiredis/hiredis.h>

#include <array>
#include <charconv>
#include <new>

#include "core/bytes.h"

namespace terrace::storage::redis {

namespace {

// The map of a cluster of a thousand nodes is some 100 KiB long.
constexpr std::size_t max_reply_bytes = 4 * mib;

Reply to_reply(const redisReply& from) {
  Reply reply;
  switch (from.type) {
    case REDIS_REPLY_STATUS:
      reply.kind = Reply::Kind::status;
      break;
    case REDIS_REPLY_ERROR:
      reply.kind = Reply::Kind::error;
      break;
    case REDIS_REPLY_STRING:
      reply.kind = Reply::Kind::text;
      break;
    case REDIS_REPLY_INTEGER:
      reply.kind = Reply::Kind::integer;
      reply.integer = from.integer;
      return reply;
    case REDIS_REPLY_ARRAY:
      reply.kind = Reply::Kind::list;
      for (std::size_t i = 0; i < from.elements; ++i)
        reply.elements.push_back(to_reply(*from.element[i]));
      return reply;
    default:
      return reply;
  }
  reply.text.assign(from.str, static_cast<std::size_t>(from.len));
  return reply;
}

void append_count(std::string& out, char kind, std::size_t count) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), count).ptr;
  out += kind;
  out.append(digits.data(), end);
  out += "\r\n";
}

}  // namespace

// hiredis' formatter makes and frees a string a command, which shows where a pipeline has hundreds.
void append_command(std::string& out, std::span<const std::string_view> arguments) {
  append_count(out, '*', arguments.size());
  for (const std::string_view argument : arguments) {
    append_count(out, '$', argument.size());
    out += argument;
    out += "\r\n";
  }
}

void append_set(std::string& out, std::string& suffix, std::string_view key,
                std::uint64_t value_bytes, std::int64_t ttl_ms) {
  const std::string ttl = std::to_string(ttl_ms);
  out += ttl_ms > 0 ? "*5" : "*3";
  out += "\r\n$3\r\nSET\r\n$" + std::to_string(key.size()) + "\r\n";
  out += key;
  out += "\r\n$" + std::to_string(value_bytes) + "\r\n";
  suffix += "\r\n";
  if (ttl_ms > 0) suffix += "$2\r\nPX\r\n$" + std::to_string(ttl.size()) + "\r\n" + ttl + "\r\n";
}

ReplyReader::ReplyReader() { reset(); }

ReplyReader::~ReplyReader() { redisReaderFree(reader_); }

void ReplyReader::reset() {
  if (reader_ != nullptr) redisReaderFree(reader_);
  reader_ = redisReaderCreate();
  if (reader_ == nullptr) throw std::bad_alloc();
  fed_bytes_ = 0;
}

Result<ReplyReader::Progress> ReplyReader::read(std::string_view bytes) {
  fed_bytes_ += bytes.size();
  if (fed_bytes_ > max_reply_bytes)
    return error(StatusCode::corruption, "a reply that is longer than any that was asked for");
  void* whole = nullptr;
  if (redisReaderFeed(reader_, bytes.data(), bytes.size()) != REDIS_OK ||
      redisReaderGetReply(reader_, &whole) != REDIS_OK)
    return error(StatusCode::corruption, "no reply of Redis: " + printable(reader_->errstr));
  Progress progress;
  progress.consumed = bytes.size();
  if (whole == nullptr) return progress;
  progress.reply = to_reply(*static_cast<const redisReply*>(whole));
  freeReplyObject(whole);
  // What came behind the reply is somebody else's.
  progress.consumed -= reader_->len - reader_->pos;
  reset();
  return progress;
}

}  // namespace terrace::storage::redis
