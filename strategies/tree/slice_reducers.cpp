#include "troupe/strategies/tree/slice_reducers.hpp"

#include <algorithm>

namespace troupe::tree {

adders::slice& adders::of(const stamp& at) {
  const auto it = std::ranges::find_if(slices_, [&](const slice& s) {
    const auto& seat = s.machine.at();
    return seat.bucket == at.bucket && seat.slice == at.slice
           && seat.slices == at.slices;
  });
  if (it != slices_.end())
    return *it;
  slices_.push_back(
    {tree_sum{{at.epoch, at.step, at.bucket, replicas_, at.slice, at.slices}},
     false,
     {}});
  return slices_.back();
}

/// @returns the slice of the same bucket and step that is in progress with
///          another number of slices. Null: none.
const seat* adders::otherwise_cut(const stamp& at) const {
  const auto it = std::ranges::find_if(slices_, [&](const slice& s) {
    const auto& seat = s.machine.at();
    return seat.bucket == at.bucket && seat.slices != at.slices
           && seat.step == at.step && !s.done;
  });
  return it == slices_.end() ? nullptr : &it->machine.at();
}

void adders::open(std::uint64_t epoch) {
  if (epoch <= epoch_)
    return;
  epoch_ = epoch;
  slices_.clear();
  ready_ = 0;
}

reaction adders::on(const part& x, const tensor& data, const tensor& room) {
  const auto& at = x.at;
  if (at.epoch < epoch_)
    return ignored{};
  open(at.epoch);
  if (at.slices == 0 || at.slice >= at.slices)
    return fault{"slice " + std::to_string(at.slice) + " of "
                 + std::to_string(at.slices)};
  if (const auto* other = otherwise_cut(at))
    return fault{"the contribution of replica " + std::to_string(at.replica)
                 + " to bucket " + std::to_string(at.bucket) + ", step "
                 + std::to_string(at.step) + ", has slice count "
                 + std::to_string(at.slices) + ", earlier contributions "
                 + std::to_string(other->slices)
                 + ": the replicas do not call the same collectives"};
  auto& mine = of(at);
  if (mine.done && at.step > mine.machine.at().step) {
    mine.done = false;
    mine.machine.open(
      {at.epoch, at.step, at.bucket, replicas_, at.slice, at.slices});
  }
  auto what = mine.machine.on(x, data, room);
  if (auto* whole = std::get_if<finished>(&what)) {
    mine.sum = std::move(whole->sum);
    what = adding{};
  }
  if (std::holds_alternative<adding>(what))
    ++ready_;
  return what;
}

std::optional<adders::done> adders::work(std::size_t max_elements,
                                         std::uint32_t bucket) {
  const auto ready = [](const slice& s) {
    return !s.done && s.machine.complete();
  };
  auto it = std::ranges::find_if(slices_, [&](const slice& s) {
    return s.machine.at().bucket == bucket && ready(s);
  });
  if (it == slices_.end())
    it = std::ranges::find_if(slices_, ready);
  if (it == slices_.end())
    return std::nullopt;
  if (!it->sum) {
    auto what = it->machine.work(max_elements);
    auto* whole = std::get_if<finished>(&what);
    if (!whole)
      return std::nullopt;
    it->sum = std::move(whole->sum);
  }
  it->done = true;
  --ready_;
  return done{it->machine.at(), std::exchange(it->sum, {})};
}

std::optional<adders::lack> adders::lacking(std::uint64_t step) const {
  for (const auto& s : slices_) {
    if (s.done || s.machine.complete() || s.machine.at().step != step)
      continue;
    lack out{s.machine.at().bucket, {}};
    for (std::uint32_t r = 0; r < replicas_; ++r)
      if (!s.machine.has(r))
        out.missing.push_back(r);
    return out;
  }
  return std::nullopt;
}

} // namespace troupe::tree
