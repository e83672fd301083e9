// soak_worker SOCKET SEED: puts prompts into the cache and gets them, and compares every byte,
// until it is killed. Writes a line for each prompt: how many blocks it got. Ends with status 3 if
// the bytes of a block are wrong.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <thread>

#include "client/client.h"
#include "tests/integration/soak_prompts.h"
#include "tests/support/keyed_bytes.h"

namespace terrace::integration {
namespace {

using client::Deadline;

constexpr std::chrono::seconds call_limit{5};
constexpr std::size_t most_open_leases = 6;
// Of so many prompts one connects anew, and one is only looked up.
constexpr unsigned prompts_a_connection = 60, prompts_a_probe = 4;
// A worker computes between its calls; this also leaves the cores to others.
constexpr std::chrono::milliseconds pause_between_prompts{3};

Deadline soon() { return Deadline::clock::now() + call_limit; }

std::span<std::byte> bytes_of(const client::Slot& slot) { return {slot.address, soak_block_bytes}; }

class SoakWorker {
 public:
  SoakWorker(std::string socket_path, std::uint32_t seed)
      : socket_path_(std::move(socket_path)), random_(seed) {
    connect();
  }

  // False if bytes were wrong.
  bool run_prompt() {
    if (random_() % prompts_a_connection == 0) connect();
    const auto tokens = soak_prompt(random_() % soak_prompts);
    const auto keys = derive_block_keys(space_->digest(), tokens, soak_block_tokens);
    const auto match = space_->match(keys, tokens, soon());
    if (!match || random_() % prompts_a_probe == 0) return true;
    const client::LeaseId lease = space_->new_lease();
    leases_.push_back(lease);
    std::size_t present = 0;
    if (match->matched_blocks > 0) {
      const auto got =
          space_->acquire(lease, std::span(keys).first(match->matched_blocks), {}, soon());
      if (got) {
        for (; present < got->size(); ++present)
          if (!test_support::holds_key(bytes_of((*got)[present].slot), keys[present])) {
            std::fprintf(stderr, "block %s has wrong bytes\n", keys[present].hex().c_str());
            return false;
          }
      }
    }
    std::printf("%zu\n", present);
    std::fflush(stdout);
    put(lease, tokens, keys, present);
    // Some leases stay open for a while, as those of long answers do.
    while (leases_.size() > random_() % most_open_leases) {
      space_->release(leases_.front());
      leases_.pop_front();
    }
    return true;
  }

 private:
  void connect() {
    leases_.clear();
    space_.reset();
    client_ = client::Client::start({.socket_path = socket_path_, .client_name = "soak"});
    space_ = client_->open_space(soak_space());
    (void)client_->wait_connected(soon());
  }

  void put(client::LeaseId lease, const std::vector<Token>& tokens,
           const std::vector<BlockKey>& keys, std::size_t first) {
    if (first == keys.size()) return;
    const auto slots = space_->reserve(lease, std::span(keys).subspan(first), 0, soon());
    if (!slots) return;
    std::vector<client::SealBlock> blocks;
    for (std::size_t i = 0; i < slots->size(); ++i) {
      const std::size_t block = first + i;
      test_support::fill_with_key(bytes_of((*slots)[i]), keys[block]);
      const auto at = tokens.begin() + static_cast<std::ptrdiff_t>(block * soak_block_tokens);
      blocks.push_back({(*slots)[i],
                        block == 0 ? space_->digest() : keys[block - 1],
                        {at, at + soak_block_tokens}});
    }
    space_->seal(lease, std::move(blocks));
  }

  const std::string socket_path_;
  std::minstd_rand random_;
  std::unique_ptr<client::Client> client_;
  std::shared_ptr<client::Space> space_;
  std::deque<client::LeaseId> leases_;
};

}  // namespace
}  // namespace terrace::integration

int main(int argc, char** argv) {
  using namespace terrace::integration;
  if (argc != 3) return 2;
  SoakWorker worker(argv[1], static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10)));
  while (worker.run_prompt()) std::this_thread::sleep_for(pause_between_prompts);
  return 3;
}
