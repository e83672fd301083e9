#include "cache_daemon/staging_region.h"

namespace terrace::daemon {
namespace {

constexpr std::uint64_t staging_page_bytes = 4096;

}  // namespace

Result<std::shared_ptr<StagingRegion>> StagingRegion::create(std::uint64_t bytes) {
  bytes -= bytes % staging_page_bytes;
  if (bytes == 0) return error(StatusCode::invalid_argument, "a staging region has at least a page");
  auto fd = create_memory_file("terrace-staging", bytes);
  if (!fd) return error(fd.error().with_context("staging region"));
  if (Status sealed = seal_against_sealing(fd->get()); !sealed.ok())
    return error(sealed.with_context("staging region"));
  auto mapping = SharedMapping::map(fd->get(), bytes, SharedMapping::Access::read_write);
  if (!mapping) return error(mapping.error().with_context("staging region"));
  return std::shared_ptr<StagingRegion>(new StagingRegion(std::move(*fd), std::move(*mapping)));
}

std::optional<std::span<std::byte>> StagingRegion::find(std::uint64_t offset,
                                                        std::uint64_t bytes) const {
  if (bytes > size() || offset > size() - bytes) return std::nullopt;
  return std::span(mapping_.data() + offset, bytes);
}

}  // namespace terrace::daemon
