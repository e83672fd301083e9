// What requests become: tasks, and the commands that carry them.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "storage/redis/engine.h"
#include "storage/redis/resp.h"

namespace terrace::storage::redis {

// Whether the task may go on; otherwise it is complete already.
bool Engine::begin(const std::shared_ptr<Task>& task, Ticket ticket, std::int64_t deadline_ns) {
  const RedisOptions& options = environment_.options;
  task->ticket = ticket;
  task->begun_ns = environment_.now_ns();
  task->deadline_ns = task->begun_ns + options.request_timeout_ms * ns_a_ms;
  if (deadline_ns != 0) task->deadline_ns = std::min(task->deadline_ns, deadline_ns);
  if (++outstanding_ > options.max_queued_requests) {
    environment_.counters.rejected.fetch_add(1);
    complete(*task, StatusCode::unavailable, "too many requests are under way");
    return false;
  }
  return true;
}

void Engine::start(RemoteLookup request) {
  auto lookup = std::make_shared<LookupTask>();
  lookup->space = request.space;
  lookup->keys = std::move(request.keys);
  // An answer ends at the first hole: nothing behind a known one is asked for.
  const std::int64_t now_ns = environment_.now_ns();
  const auto hole = std::ranges::find_if(
      lookup->keys, [&](const BlockKey& key) { return negative_.contains(key, now_ns); });
  lookup->keys.erase(hole, lookup->keys.end());
  lookup->answers.resize(lookup->keys.size(), LookupTask::Answer::unknown);
  lookup->unknown = lookup->keys.size();
  if (!begin(lookup, request.ticket, request.deadline_ns)) return;
  if (lookup->keys.empty()) {
    environment_.counters.absent.fetch_add(1);
    return complete(*lookup, RemoteCompletion{});
  }
  watch_deadline(lookup);
  std::vector<std::uint32_t> indexes(lookup->keys.size());
  for (std::uint32_t i = 0; i < indexes.size(); ++i) indexes[i] = i;
  ask(lookup, indexes, 0);
}

// Asks for some of the keys: one pipeline a server.
void Engine::ask(const std::shared_ptr<LookupTask>& lookup,
                 const std::vector<std::uint32_t>& indexes, unsigned losses) {
  std::map<const RedisEndpoint*, std::unique_ptr<Command>> commands;
  const SpaceNames names = names_.in(lookup->space);
  for (const std::uint32_t index : indexes) {
    std::unique_ptr<Command>& command = commands[master_of(names, lookup->keys[index])];
    if (!command) {
      command = std::make_unique<Command>();
      command->kind = Command::Kind::exists;
      command->lookup = lookup;
      command->losses = losses;
    }
    command->indexes.push_back(index);
  }
  for (auto& [master, command] : commands) route(std::move(command));
}

void Engine::start(RemoteRead request) {
  auto read = std::make_shared<ReadTask>();
  if (!begin(read, request.ticket, request.deadline_ns)) return;
  read->request = std::move(request);
  watch_deadline(read);
  const RemoteRead& asked = read->request;
  const auto space = spaces_.find(asked.space);
  if (space == spaces_.end() || space->second.block_bytes != asked.destination.size()) {
    environment_.counters.failed.fetch_add(1);
    return complete(*read, StatusCode::invalid_argument,
                    "a read of an unknown space, or of a block of another size");
  }
  auto command = std::make_unique<Command>();
  command->kind = Command::Kind::get;
  command->value_bytes = record_header_bytes + asked.destination.size();
  command->read = std::move(read);
  route(std::move(command));
}

void Engine::start(RemoteWrite request) {
  auto write = std::make_shared<WriteTask>();
  if (!begin(write, request.ticket, 0)) return;
  write->request = std::move(request);
  writing_.insert_or_assign(write->request.key, false);
  watch_deadline(write);
  const RemoteWrite& asked = write->request;
  const auto space = spaces_.find(asked.space);
  const std::uint64_t value_bytes = record_header_bytes + asked.payload.size();
  if (space == spaces_.end() || space->second.block_bytes != asked.payload.size() ||
      asked.tokens.size() != space->second.block_tokens ||
      value_bytes > environment_.options.max_value_bytes) {
    environment_.counters.failed.fetch_add(1);
    return complete(*write, StatusCode::invalid_argument,
                    "a write of an unknown space, of a block of another size, or of a value that "
                    "is larger than allowed");
  }
  auto command = std::make_unique<Command>();
  command->kind = Command::Kind::set;
  command->value_bytes = value_bytes;
  command->payload = asked.payload;
  command->write = std::move(write);
  route(std::move(command));
}

void Engine::start(EraseRequest request) {
  // Behind the writes that came before.
  std::erase_if(request.keys, [this](const BlockKey& key) {
    const auto at = writing_.find(key);
    if (at == writing_.end()) return false;
    at->second = true;
    return true;
  });
  unlink(request.space, request.keys);
}

void Engine::unlink(const BlockKey& space, const std::vector<BlockKey>& keys) {
  std::map<const RedisEndpoint*, std::unique_ptr<Command>> commands;
  const SpaceNames names = names_.in(space);
  for (const BlockKey& key : keys) {
    std::unique_ptr<Command>& command = commands[master_of(names, key)];
    if (command && command->unlink.size() == max_unlinked_keys) route(std::move(command));
    if (!command) {
      command = std::make_unique<Command>();
      command->kind = Command::Kind::unlink;
      command->space = space;
    }
    command->unlink.push_back(key);
  }
  for (auto& [master, command] : commands) route(std::move(command));
}

// What the command says, as of now.
void Engine::render(Command& command) const {
  command.text.clear();
  command.suffix.clear();
  command.answered = 0;
  command.replies = 1;
  command.preamble = 0;
  if (command.asking) {
    append_command(command.text, std::array<std::string_view, 1>{"ASKING"});
    command.preamble = 1;
  }
  const auto add = [&command](std::string_view name, const std::string& key) {
    append_command(command.text, std::array<std::string_view, 2>{name, key});
  };
  switch (command.kind) {
    case Command::Kind::exists: {
      const SpaceNames names = names_.in(command.lookup->space);
      std::string name;
      for (const std::uint32_t index : command.indexes) {
        names.write(command.lookup->keys[index], name);
        if (command.text.empty()) command.text.reserve(command.indexes.size() * (name.size() + 32));
        add("EXISTS", name);
      }
      command.replies = command.indexes.size();
      return;
    }
    case Command::Kind::unlink: {
      const SpaceNames names = names_.in(command.space);
      command.by_del = use_del_;
      for (const BlockKey& key : command.unlink) add(use_del_ ? "DEL" : "UNLINK", names.of(key));
      command.replies = command.unlink.size();
      return;
    }
    case Command::Kind::scan:
      return append_command(
          command.text, std::array<std::string_view, 6>{"SCAN", command.cursor, "MATCH",
                                                        names_.in(command.erase->space).pattern(),
                                                        "COUNT", std::to_string(scanned_names)});
    case Command::Kind::get:
      return add("GET", names_.of(command.read->request.space, command.read->request.key));
    case Command::Kind::set: {
      const RemoteWrite& asked = command.write->request;
      std::int64_t ttl_ms = environment_.options.ttl_ms;
      if (asked.max_ttl_ms > 0 && (ttl_ms == 0 || asked.max_ttl_ms < ttl_ms))
        ttl_ms = asked.max_ttl_ms;
      append_set(command.text, command.suffix, names_.of(asked.space, asked.key),
                 command.value_bytes, ttl_ms);
      RecordHeader header;
      header.space = asked.space;
      header.key = asked.key;
      header.parent = asked.parent;
      header.tokens = asked.tokens;
      header.payload_bytes = header.stored_bytes = asked.payload.size();
      header.payload_checksum = header.stored_checksum = asked.payload_checksum;
      header.created_unix_ms =
          asked.created_unix_ms != 0 ? asked.created_unix_ms : environment_.clock->unix_ms();
      const std::size_t at = command.text.size();
      command.text.resize(at + record_header_bytes);
      // What a space allows always fits into a header.
      [[maybe_unused]] const Status encoded =
          encode_record_header(header, std::as_writable_bytes(std::span(command.text)).subspan(at));
      return;
    }
    default:
      return;
  }
}

void Engine::answer(LookupTask& lookup, std::uint32_t index, LookupTask::Answer answer) {
  if (lookup.done || lookup.answers[index] != LookupTask::Answer::unknown) return;
  lookup.answers[index] = answer;
  if (answer == LookupTask::Answer::absent)
    negative_.insert(lookup.keys[index], environment_.now_ns());
  if (--lookup.unknown > 0) return;
  const std::uint32_t present = lookup.leading();
  // What was not answered hides only what lies behind it.
  if (present == 0 && lookup.answers[0] == LookupTask::Answer::failed) {
    (environment_.counters.*lookup.failure_counter).fetch_add(1);
    return complete(lookup, lookup.failure.code(), lookup.failure.message());
  }
  (present > 0 ? environment_.counters.found : environment_.counters.absent).fetch_add(1);
  RemoteCompletion completion;
  completion.present = present;
  complete(lookup, std::move(completion));
}

void Engine::end_write(const WriteTask& write) {
  const auto at = writing_.find(write.request.key);
  if (at == writing_.end()) return;
  const bool erase = at->second;
  writing_.erase(at);
  if (erase) unlink(write.request.space, {write.request.key});
}

// Ends what the command was for.
void Engine::fail(Command& command, const Status& why, Counter counter) {
  if (command.lookup) {
    for (const std::uint32_t index : command.indexes) fail_key(command, index, why, counter);
    return;
  }
  Task* const task = command.task();
  if (task == nullptr || task->done) return;
  (environment_.counters.*counter).fetch_add(1);
  complete(*task, why.code(), why.message());
}

void Engine::fail_key(Command& command, std::uint32_t index, const Status& why, Counter counter) {
  LookupTask& lookup = *command.lookup;
  if (lookup.failure.ok()) {
    lookup.failure = why;
    lookup.failure_counter = counter;
  }
  answer(lookup, index, LookupTask::Answer::failed);
}

}  // namespace terrace::storage::redis
