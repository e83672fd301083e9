#include "bench/untouched_accelerator.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace terrace::bench {

namespace {

class Addresses final : public storage::DeviceMemory {
 public:
  Addresses(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  ~Addresses() override { ::munmap(data_, size_); }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  std::size_t size() const override { return size_; }
  std::byte* data() const override { return data_; }
  bool host_accessible() const override { return true; }
  int exported_fd() const override { return -1; }

 private:
  std::byte* const data_;
  const std::size_t size_;
};

const Status refused(StatusCode::unimplemented, "this memory is not to be touched");

}  // namespace

Result<std::unique_ptr<storage::DeviceMemory>> UntouchedAccelerator::allocate(std::size_t bytes) {
  void* const got = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return error(errno_status(errno, "could not reserve addresses"));
  return std::unique_ptr<storage::DeviceMemory>(
      std::make_unique<Addresses>(static_cast<std::byte*>(got), bytes));
}

void UntouchedAccelerator::copy_async(std::uint64_t ticket, std::byte* /*to*/,
                                      std::span<const std::byte> /*from*/) {
  completions_.push_back({ticket, refused, 0});
}

void UntouchedAccelerator::checksum_async(std::uint64_t ticket,
                                          std::span<const std::byte> /*from*/) {
  completions_.push_back({ticket, refused, 0});
}

void UntouchedAccelerator::take_completions(std::vector<storage::CopyCompletion>& out) {
  for (auto& completion : std::exchange(completions_, {})) out.push_back(std::move(completion));
}

}  // namespace terrace::bench
