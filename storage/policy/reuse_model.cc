#include "storage/policy/reuse_model.h"

#include <bit>
#include <cassert>
#include <cmath>

namespace terrace::storage {

namespace {

constexpr RequestNumber requests_a_fit = 64;
// After so many requests a count is worth half.
constexpr double count_half_life_requests = 4096;

unsigned kind_of(std::uint8_t uses, bool last) { return use_group(uses) * 2 + last; }
unsigned class_of_kind(unsigned kind, unsigned size) { return kind * new_sizes + size; }

}  // namespace

ReuseModel::ReuseModel() : slots_(remembered_requests) {
  for (std::uint32_t age = 0; age < remembered_requests; ++age)
    bucket_of_[age] = static_cast<std::uint8_t>(age_bucket(age));
}

template <typename Visit>
void ReuseModel::for_each_kind(const Slot& slot, Visit visit) {
  for (unsigned kinds = slot.some_left; kinds != 0; kinds &= kinds - 1)
    visit(static_cast<unsigned>(std::countr_zero(kinds)));
}

RequestNumber ReuseModel::begin_request() {
  if (++now_ == unknown_request) ++now_;
  // Requests that cross an edge take their blocks on to the next bucket, and out at the end.
  for (unsigned b = 1; b <= age_buckets; ++b) {
    Slot& crossing = slot(now_ - age_edges[b]);
    for_each_kind(crossing, [&](unsigned kind) {
      const unsigned c = class_of_kind(kind, crossing.size);
      const auto blocks = static_cast<float>(crossing.left[kind]);
      waiting_[cell_of(c, b - 1)] -= blocks;
      if (b < age_buckets)
        waiting_[cell_of(c, b)] += blocks;
      else
        waiting_in_class_[c] -= crossing.left[kind];
    });
    if (b == age_buckets) crossing = Slot{};
  }
  for (unsigned c = 0; c < reuse_classes; ++c) {
    if (waiting_in_class_[c] == 0) continue;
    for (unsigned b = 0; b < age_buckets; ++b) exposure_[cell_of(c, b)] += waiting_[cell_of(c, b)];
  }
  if (now_ % requests_a_fit == 0) {
    static const auto fade = static_cast<float>(
        std::exp2(-static_cast<double>(requests_a_fit) / count_half_life_requests));
    for (float& count : reuses_) count *= fade;
    for (float& count : exposure_) count *= fade;
    index_.fit(reuses_, exposure_);
  }
  return now_;
}

void ReuseModel::add_new_block(RequestNumber request) {
  if (!remembers(request)) return;
  Slot& changed = slot(request);
  const unsigned size = new_size(++changed.new_blocks), b = bucket(request);
  if (size == changed.size) return;
  for_each_kind(changed, [&](unsigned kind) {
    const unsigned was = class_of_kind(kind, changed.size), now = class_of_kind(kind, size);
    const std::uint32_t count = changed.left[kind];
    waiting_[cell_of(was, b)] -= static_cast<float>(count);
    waiting_[cell_of(now, b)] += static_cast<float>(count);
    waiting_in_class_[was] -= count;
    waiting_in_class_[now] += count;
  });
  changed.size = static_cast<std::uint8_t>(size);
}

void ReuseModel::change(RequestNumber request, unsigned kind, std::int32_t by) {
  Slot& changed = slot(request);
  const unsigned c = class_of_kind(kind, changed.size);
  changed.left[kind] += static_cast<std::uint32_t>(by);
  if (changed.left[kind] == 0)
    changed.some_left &= static_cast<std::uint16_t>(~(1u << kind));
  else
    changed.some_left |= static_cast<std::uint16_t>(1u << kind);
  waiting_[cell_of(c, bucket(request))] += static_cast<float>(by);
  waiting_in_class_[c] += static_cast<std::uint32_t>(by);
}

bool ReuseModel::waits(const ReuseState& state) const {
  return remembers(state.request) && slot(state.request).left[kind_of(state.uses, state.last)] > 0;
}

void ReuseModel::use(ReuseState& state, RequestNumber request, std::uint8_t uses, bool last) {
  if (state.request == request) return;
  const unsigned kind = kind_of(state.uses, state.last);
  if (remembers(state.request) && slot(state.request).left[kind] > 0) {
    const unsigned was = class_of_kind(kind, slot(state.request).size);
    reuses_[cell_of(was, bucket(state.request))] += 1;
    change(state.request, kind, -1);
  }
  state = {request, uses, last};
  if (remembers(request)) change(request, kind_of(uses, last), 1);
}

void ReuseModel::set_last(ReuseState& state, bool last) {
  if (state.last == last) return;
  const bool waiting = waits(state);
  if (waiting) change(state.request, kind_of(state.uses, state.last), -1);
  state.last = last;
  if (waiting) change(state.request, kind_of(state.uses, last), 1);
}

void ReuseModel::forget(const ReuseState& state) {
  if (waits(state)) change(state.request, kind_of(state.uses, state.last), -1);
}

unsigned ReuseModel::cell(const ReuseState& state) const {
  assert(remembers(state.request));
  return cell_of(class_of_kind(kind_of(state.uses, state.last), size_of(state.request)),
                 bucket(state.request));
}

}  // namespace terrace::storage
