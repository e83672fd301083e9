// A cache beside a tier that other hosts share.
#pragma once

#include "core/checksum.h"
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {

class RemoteFixture : public CacheFixture {
 protected:
  static Sizes with_remote(Sizes sizes = {}) {
    sizes.remote = true;
    return sizes;
  }

  // As if another host had written blocks [from, from + count) of a prompt.
  void write_elsewhere(const Prompt& prompt, std::size_t from, std::size_t count) {
    for (std::size_t i = from; i < from + count; ++i) {
      const auto bytes = contents(prompt.keys[i]);
      in_redis_.values[prompt.keys[i]] = {digest_, prompt.parent(i), prompt.block(i), bytes,
                                          payload_checksum(bytes)};
    }
  }

  // The same cache without anything: another host.
  void move_to_another_host(const Sizes& sizes) {
    stop();
    on_disk_ = {};
    start(sizes);
  }

  void look_up(const Prompt& prompt, std::int64_t budget_ms = 10) {
    ++asked_;
    cache_->look_up(space_, prompt.keys, prompt.tokens,
                    clock_.monotonic_ns() + budget_ms * 1'000'000, [this] { ++told_; });
  }
  // What a match says when it has asked.
  std::size_t matched(const Prompt& prompt) {
    look_up(prompt);
    while (told_ < asked_) {
      if (!remote_->under_way().empty()) remote_->complete(0);
      cache_->run_completions();
    }
    return cache_->match(space_, prompt.keys, prompt.tokens).matched_blocks;
  }
  std::size_t matched_without_asking(const Prompt& prompt) const {
    return cache_->match(space_, prompt.keys, prompt.tokens).matched_blocks;
  }
  bool in_redis(const Prompt& prompt, std::size_t block) const {
    return in_redis_.values.contains(prompt.keys[block]);
  }
  RemoteStats remote_stats() const { return *cache_->stats().remote; }

  int asked_ = 0, told_ = 0;
};

}  // namespace terrace::storage
