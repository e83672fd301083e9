// lease_holder SOCKET [--drop-connection]: reserves five slots and holds them until it is killed.
// For tests of what the daemon does then.
#include <capnp/rpc-twoparty.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "client/link.h"
#include "protocol/descriptor.h"

int main(int argc, char** argv) {
  using namespace terrace;
  if (argc < 2) return 2;
  auto io = kj::setupAsyncIo();
  auto link = client::Link::open(io, argv[1], "lease_holder", nullptr).wait(io.waitScope);
  SpaceDescriptor descriptor;
  descriptor.numerics_id = "test";
  descriptor.kv_dtype = "bf16";
  descriptor.layout_id = "cpu-tile32";
  descriptor.block_bytes = 64 << 10;
  auto open = link->session().openSpaceRequest();
  protocol::write_descriptor(descriptor, open.initDescriptor());
  auto reserve = open.send().getSpace().reserveRequest();
  reserve.setLease(1);
  reserve.setUnnamed(5);
  if (reserve.send().wait(io.waitScope).getSlots().size() != 5 * sizeof(std::uint64_t)) return 1;
  if (argc > 2 && std::strcmp(argv[2], "--drop-connection") == 0) link = nullptr;
  std::puts("holding");
  std::fflush(stdout);
  for (;;) ::pause();
}
