// What servers say, and what follows from it.
#include <spdlog/spdlog.h>

#include <utility>

#include "storage/redis/engine.h"
#include "storage/redis/resp.h"

namespace terrace::storage::redis {

void Engine::replied(Server& server, Command& command, Reply reply) {
  if (reply.kind == Reply::Kind::error) {
    failed_reply(server, command, reply.text);
    return unlinked(server, command);
  }
  const auto unexpected = [&] {
    fail(command, Status(StatusCode::io_error, "the server's answer makes no sense"));
  };
  switch (command.kind) {
    case Command::Kind::exists: {
      const std::uint32_t index = command.indexes[command.answered - 1];
      if (reply.kind != Reply::Kind::integer)
        return fail_key(command, index,
                        Status(StatusCode::io_error, "the server's answer makes no sense"),
                        &Counters::failed);
      return answer(*command.lookup, index,
                    reply.integer > 0 ? LookupTask::Answer::present : LookupTask::Answer::absent);
    }
    case Command::Kind::get:
      if (reply.kind != Reply::Kind::nil) return unexpected();
      if (command.given_up()) return;
      negative_.insert(command.read->request.key, environment_.now_ns());
      environment_.counters.absent.fetch_add(1);
      return complete(*command.read, StatusCode::not_found, "the block is not at the server");
    case Command::Kind::set: {
      if (reply.kind != Reply::Kind::status) return unexpected();
      negative_.erase(command.write->request.key);
      if (command.given_up()) return;
      environment_.counters.written.fetch_add(1);
      RemoteCompletion completion;
      completion.stored_bytes = command.value_bytes;
      return complete(*command.write, std::move(completion));
    }
    case Command::Kind::slots:
      return adopt_map(server, reply);
    case Command::Kind::scan:
      return scanned(server, command, reply);
    case Command::Kind::unlink:
      return unlinked(server, command);
    default:
      return;
  }
}

void Engine::received(Server&, Command& command, Result<std::uint64_t> outcome) {
  if (command.given_up()) return;
  ReadTask& read = *command.read;
  if (outcome) {
    environment_.counters.found.fetch_add(1);
    RemoteCompletion completion;
    completion.payload_checksum = *outcome;
    completion.created_unix_ms = read.created_unix_ms;
    completion.stored_bytes = command.value_bytes;
    return complete(read, std::move(completion));
  }
  const Status& why = outcome.error();
  if (why.code() == StatusCode::corruption) {
    environment_.counters.corrupt.fetch_add(1);
    discard_corrupt(read.request, why.message());
  } else {
    environment_.counters.absent.fetch_add(1);
  }
  complete(read, why.code(), why.message());
}

void Engine::spoiled(Command& command) {
  environment_.counters.corrupt.fetch_add(1);
  complete(*command.write, StatusCode::corruption,
           "the bytes to be written are not what their checksum says");
}

// Nobody is to stumble over it again.
void Engine::discard_corrupt(const RemoteRead& request, const std::string& why) {
  spdlog::warn("redis: the value of block {} does not verify ({}); it is deleted",
               request.key.hex(), why);
  unlink(request.space, {request.key});
}

void Engine::lost(Server& server, std::unique_ptr<Command> command, const Status& why) {
  if (environment_.options.mode == RedisMode::cluster) map_wanted_ = true;
  if (command->kind == Command::Kind::slots) {
    map_asked_ = false;
    return;
  }
  if (command->kind == Command::Kind::probe || command->given_up()) return;
  const Status failure(StatusCode::unavailable,
                       to_string(server.endpoint()) + ": " + why.message());
  if (command->losses > max_losses) return fail(*command, failure);
  if (command->erase) return send_to(server, std::move(command));
  if (command->kind == Command::Kind::unlink) {
    if (command->losses == 0) route(std::move(command));
    return;
  }
  if (!command->lookup) return route(std::move(command));
  // Those of its keys that were answered are done; the others may be at several servers by now.
  std::vector<std::uint32_t> open;
  for (const std::uint32_t index : command->indexes)
    if (command->lookup->answers[index] == LookupTask::Answer::unknown) open.push_back(index);
  ask(command->lookup, open, command->losses);
}

void Engine::failed_reply(Server& server, Command& command, const std::string& text) {
  std::string why_not = printable(text);
  const bool writes = command.kind == Command::Kind::set || command.kind == Command::Kind::unlink;
  ErrorKind kind = classify_error(text);
  // Who may not SCAN cannot drop a space there, and does all else.
  if (kind == ErrorKind::no_permission && command.kind != Command::Kind::scan)
    kind = writes ? ErrorKind::read_only : ErrorKind::not_ready;
  if (environment_.options.mode == RedisMode::standalone &&
      (kind == ErrorKind::moved || kind == ErrorKind::ask)) {
    kind = ErrorKind::not_ready;
    why_not = "it is part of a cluster; set redis.mode = \"cluster\"";
    if (const auto redirection = parse_redirection(text)) foreign_slot_ = redirection->slot;
  }
  const std::string said = to_string(server.endpoint()) + ": " + why_not;
  switch (kind) {
    case ErrorKind::moved:
    case ErrorKind::ask:
      return redirect(server, command, text, kind == ErrorKind::ask);
    case ErrorKind::refuses_writes:
      return refused_write(server, command, StatusCode::no_space, said);
    case ErrorKind::read_only:
      return refused_write(server, command, StatusCode::unavailable, said);
    case ErrorKind::not_ready:
      server.not_ready(why_not);
      break;
    case ErrorKind::wrong_type:
      if (command.kind != Command::Kind::get || command.given_up()) break;
      environment_.counters.corrupt.fetch_add(1);
      discard_corrupt(command.read->request, "it is no string");
      return complete(*command.read, StatusCode::corruption, said);
    case ErrorKind::unknown_command:
      if (command.kind != Command::Kind::unlink) break;
      if (command.erase) {
        if (command.by_del) break;
        use_del_ = true;
        command.cursor.clear();
        return;
      }
      if (std::exchange(use_del_, true)) break;
      return unlink(command.space, command.unlink);
    default:
      break;
  }
  if (command.kind == Command::Kind::slots) {
    // Without a map no server is of use: this one is no cluster, say.
    map_asked_ = false;
    return server.not_ready(why_not);
  }
  const Status why(kind == ErrorKind::not_ready ? StatusCode::unavailable : StatusCode::io_error,
                   said);
  if (command.kind == Command::Kind::exists)
    return fail_key(command, command.indexes[command.answered - 1], why, &Counters::failed);
  fail(command, why);
}

void Engine::refused_write(Server& server, Command& command, StatusCode code,
                           const std::string& text) {
  const Status why(code, text);
  if (server.writes_paused(environment_.now_ns()).ok()) {
    spdlog::warn("redis: {}; nothing is written there for {} ms", text,
                 environment_.options.write_pause_ms);
    note_failure(text, true);
  }
  server.pause_writes(why);
  fail(command, why, &Counters::refused);
}

// The reply's part of the command goes elsewhere.
void Engine::redirect(Server& server, Command& command, const std::string& text, bool asking) {
  environment_.counters.redirections.fetch_add(1);
  // A name that moves may be missed at both: all are listed once more. What is deleted elsewhere
  // below is part of no pass.
  if (command.erase) command.erase->moved = true;
  auto redirection = parse_redirection(text);
  if (!asking) map_wanted_ = true;
  const bool useless = !redirection || command.redirections >= max_redirections;
  if (redirection && redirection->endpoint.host.empty())
    redirection->endpoint.host = server.endpoint().host;
  if (redirection && !asking && map_known_) map_.move(redirection->slot, redirection->endpoint);

  auto next = std::make_unique<Command>();
  next->kind = command.kind;
  next->redirections = command.redirections + 1;
  next->losses = command.losses;
  next->asking = asking;
  next->value_bytes = command.value_bytes;
  next->payload = command.payload;
  next->lookup = command.lookup;
  next->read = command.read;
  next->write = command.write;
  if (command.kind == Command::Kind::exists)
    next->indexes = {command.indexes[command.answered - 1]};
  if (command.kind == Command::Kind::unlink) {
    next->space = command.space;
    next->unlink = {command.unlink[command.answered - 1]};
  }
  if (next->given_up() || command.kind == Command::Kind::probe ||
      command.kind == Command::Kind::slots)
    return;
  if (useless)
    return fail(*next,
                Status(StatusCode::unavailable, "redirected again and again: " + printable(text)));
  send_to(server_at(redirection->endpoint), std::move(next));
}

void Engine::breaker_opened(Server& server, const std::string& why, bool anew) {
  const std::string text = to_string(server.endpoint()) + ": " + why;
  if (anew) spdlog::warn("redis: {}; not asked until it answers again", text);
  note_failure(text, anew);
  if (environment_.options.mode == RedisMode::cluster) map_wanted_ = true;
}

void Engine::breaker_closed(Server& server) {
  spdlog::info("redis: {} answers again", to_string(server.endpoint()));
  if (environment_.options.mode == RedisMode::cluster) map_wanted_ = true;
}

void Engine::note_failure(const std::string& why, bool anew) {
  const std::lock_guard lock(outbox_mutex_);
  last_failure_ = why;
  if (anew || failed_unix_ms_ == 0) failed_unix_ms_ = environment_.clock->unix_ms();
}

}  // namespace terrace::storage::redis
