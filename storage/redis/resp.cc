#include "storage/redis/resp.h"

#include <hiredis/hiredis.h>

#include <new>
#include <vector>

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

}  // namespace

void append_command(std::string& out, std::span<const std::string_view> arguments) {
  std::vector<const char*> texts;
  std::vector<std::size_t> lengths;
  for (const std::string_view argument : arguments) {
    texts.push_back(argument.data());
    lengths.push_back(argument.size());
  }
  char* command = nullptr;
  const int bytes = redisFormatCommandArgv(&command, static_cast<int>(arguments.size()),
                                           texts.data(), lengths.data());
  if (bytes < 0) throw std::bad_alloc();
  out.append(command, static_cast<std::size_t>(bytes));
  redisFreeCommand(command);
}

void append_set(std::string& out, std::string& suffix, std::string_view key,
                std::uint64_t value_bytes, std::int64_t ttl_ms) {
  // A formatter copies what it formats: the value, which it must not see, is framed here.
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
