// Erasing a space: at each server its names are listed some at a time and deleted before the next.
#include <utility>

#include "storage/redis/engine.h"

namespace terrace::storage::redis {

namespace {

// Both begins and ends a listing.
constexpr const char* end_of_names = "0";

}  // namespace

void Engine::start(const RemoteEraseSpace& request) {
  auto erase = std::make_shared<EraseTask>();
  if (!begin(erase, request.ticket, 0)) return;
  erase->deadline_ns = erase->begun_ns + erase_space_limit_ns;
  erase->space = request.space;
  watch_deadline(erase);
  if (!map_known_)
    return complete(*erase, StatusCode::unavailable, "no node of the cluster has answered yet");
  begin_pass(erase);
}

void Engine::begin_pass(const std::shared_ptr<EraseTask>& erase) {
  const std::vector<RedisEndpoint> masters = map_.masters();
  if (masters.empty())
    return complete(*erase, StatusCode::unavailable, "no server of the cluster has a slot");
  erase->moved = false;
  ++erase->passes;
  erase->servers = masters.size();
  for (const RedisEndpoint& master : masters)
    if (!erase->done) scan(server_at(master), erase, end_of_names);  // or one could not be asked
}

void Engine::scan(Server& server, std::shared_ptr<EraseTask> erase, std::string cursor) {
  auto command = std::make_unique<Command>();
  command->kind = Command::Kind::scan;
  command->erase = std::move(erase);
  command->cursor = std::move(cursor);
  send_to(server, std::move(command));
}

void Engine::scanned(Server& server, Command& command, const Reply& reply) {
  if (command.given_up()) return;
  // An empty cursor would begin anew, for ever.
  if (reply.kind != Reply::Kind::list || reply.elements.size() != 2 ||
      reply.elements[0].text.empty() || reply.elements[1].kind != Reply::Kind::list)
    return fail(command, Status(StatusCode::io_error, "the server's answer makes no sense"));
  const SpaceNames names = names_.in(command.erase->space);
  auto unlink = std::make_unique<Command>();
  unlink->kind = Command::Kind::unlink;
  unlink->space = command.erase->space;
  unlink->erase = command.erase;
  unlink->cursor = reply.elements[0].text;
  for (const Reply& name : reply.elements[1].elements)
    if (const auto key = names.key_of(name.text)) unlink->unlink.push_back(*key);
  if (unlink->unlink.empty()) return erase_further(server, *unlink);
  send_to(server, std::move(unlink));
}

void Engine::unlinked(Server& server, Command& command) {
  if (command.erase && !command.given_up() && command.answered == command.replies)
    erase_further(server, command);
}

void Engine::erase_further(Server& server, const Command& command) {
  if (command.cursor.empty()) return scan(server, command.erase, end_of_names);
  if (command.cursor != end_of_names) return scan(server, command.erase, command.cursor);
  if (--command.erase->servers > 0) return;
  if (!command.erase->moved) return complete(*command.erase, RemoteCompletion{});
  if (command.erase->passes == max_erase_passes)
    return complete(*command.erase, StatusCode::unavailable,
                    "slots of the cluster moved again and again");
  begin_pass(command.erase);
}

}  // namespace terrace::storage::redis
