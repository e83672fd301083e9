// Counts uses of blocks and the waiting between them, from which the reuse index is learned. Knows
// no blocks: whoever does keeps the state of each and hands it in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "storage/policy/reuse_class.h"
#include "storage/policy/reuse_index.h"

namespace terrace::storage {

class ReuseModel {
 public:
  ReuseModel();

  // The newest request; 0 before the first.
  RequestNumber now() const { return now_; }
  // Time goes on by one.
  RequestNumber begin_request();
  // One more of a request's blocks is new. Its blocks change their class with their number.
  void add_new_block(RequestNumber request);
  // The bit length of that number.
  unsigned size_of(RequestNumber request) const { return slot(request).size; }

  // A block in `state` is used by `request`, for the `uses`th time. Nothing happens if that request
  // has used it already.
  void use(ReuseState& state, RequestNumber request, std::uint8_t uses, bool last);
  void set_last(ReuseState& state, bool last);
  // It is no longer known whether a block in `state` will be used again.
  void forget(const ReuseState& state);

  std::uint32_t age(RequestNumber request) const { return now_ - request; }
  bool remembers(RequestNumber request) const {
    return request != unknown_request && age(request) < remembered_requests;
  }
  // The cell of a block whose request is remembered.
  unsigned cell(const ReuseState& state) const;

  const ReuseIndex& index() const { return index_; }

 private:
  // What a request has left: how many of its blocks were not used again, by use group and `last`.
  struct Slot {
    std::array<std::uint32_t, use_groups * 2> left{};
    std::uint16_t some_left = 0;  // a bit for each that is not zero
    std::uint8_t size = 0;
    std::uint32_t new_blocks = 0;
  };

  Slot& slot(RequestNumber request) { return slots_[request % remembered_requests]; }
  const Slot& slot(RequestNumber request) const { return slots_[request % remembered_requests]; }
  unsigned bucket(RequestNumber request) const { return bucket_of_[age(request)]; }
  void change(RequestNumber request, unsigned kind, std::int32_t by);
  bool waits(const ReuseState& state) const;
  template <typename Visit>
  static void for_each_kind(const Slot& slot, Visit visit);

  RequestNumber now_ = 0;
  std::vector<Slot> slots_;
  std::array<std::uint8_t, remembered_requests> bucket_of_;
  CellCounts waiting_{};   // blocks now in each cell
  CellCounts reuses_{};    // of them, faded
  CellCounts exposure_{};  // sums of waiting_ over requests, faded
  std::array<std::uint32_t, reuse_classes> waiting_in_class_{};
  ReuseIndex index_;
};

}  // namespace terrace::storage
