// lease_holder SOCKET [--drop-connection | --key HEX | --get HEX]: reserves five slots, or one
// under a key, or waits for a get of two keys, and holds that until it is killed. For tests of what
// the daemon does then.
#include <capnp/rpc-twoparty.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "client/link.h"
#include "core/bytes.h"
#include "protocol/descriptor.h"
#include "protocol/packed.h"

int main(int argc, char** argv) {
  using namespace terrace;
  if (argc < 2) return 2;
  auto io = kj::setupAsyncIo();
  const std::string option = argc > 2 ? argv[2] : "";
  client::ClientOptions options;
  options.socket_path = argv[1];
  options.client_name = "lease_holder";
  if (option == "--get") options.payload = client::PayloadPath::staging;
  auto link = client::Link::open(io, options, nullptr).wait(io.waitScope);
  SpaceDescriptor descriptor;
  // The space of the tests: a key is pending in its space only.
  descriptor.model_digest.fill(7);
  descriptor.numerics_id = "test";
  descriptor.kv_dtype = "bf16";
  descriptor.layout_id = "cpu-tile32";
  descriptor.block_bytes = 64 << 10;
  auto open = link->session().openSpaceRequest();
  protocol::write_descriptor(descriptor, open.initDescriptor());
  if (option == "--get" && argc > 3) {
    std::array<std::uint8_t, 2 * sizeof(BlockKey)> keys{};
    if (!from_hex(argv[3], keys)) return 2;
    const std::uint64_t offsets[] = {0, descriptor.block_bytes};
    auto get = open.send().getSpace().getRequest();
    get.setKeys({keys.data(), keys.size()});
    get.setOffsets(protocol::pack(std::span<const std::uint64_t>(offsets)));
    get.setWaitMs(60'000);
    get.send().wait(io.waitScope);
    return 0;
  }
  auto reserve = open.send().getSpace().reserveRequest();
  reserve.setLease(1);
  std::uint32_t slots = 5;
  if (option == "--key" && argc > 3) {
    BlockKey key;
    if (!from_hex(argv[3], key.bytes)) return 2;
    reserve.setKeys(protocol::pack(key));
    slots = 1;
  } else {
    reserve.setUnnamed(slots);
  }
  if (reserve.send().wait(io.waitScope).getSlots().size() != slots * sizeof(std::uint64_t))
    return 1;
  if (option == "--drop-connection") link = nullptr;
  std::puts("holding");
  std::fflush(stdout);
  for (;;) ::pause();
}
