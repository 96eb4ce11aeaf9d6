#include "troupe/strategies/tree/slice_reducers.hpp"

#include <algorithm>

namespace troupe::tree {

slice_reducers::slice& slice_reducers::slice_of(const slice_key& key) {
  const auto found = std::ranges::find_if(slices_, [&](const slice& s) {
    const auto& spec = s.reduction_state.spec();
    return spec.bucket == key.bucket && spec.slice == key.slice
           && spec.slices == key.slices;
  });
  if (found != slices_.end())
    return *found;
  slices_.push_back({reduction{{key.generation, key.step, key.bucket, replicas_,
                                key.slice, key.slices}},
                     false,
                     {}});
  return slices_.back();
}

/// Returns the spec of an incomplete slice with the key's bucket and step, but
/// with another number of slices in the bucket. Null: none.
const slice_spec*
slice_reducers::differently_sliced(const slice_key& key) const {
  const auto found = std::ranges::find_if(slices_, [&](const slice& s) {
    const auto& spec = s.reduction_state.spec();
    return spec.bucket == key.bucket && spec.slices != key.slices
           && spec.step == key.step && !s.done;
  });
  return found == slices_.end() ? nullptr : &found->reduction_state.spec();
}

void slice_reducers::begin_generation(std::uint64_t generation) {
  if (generation <= generation_)
    return;
  generation_ = generation;
  slices_.clear();
  ready_ = 0;
}

reaction slice_reducers::on(const contribution& message, const tensor& data,
                            const tensor& output) {
  const auto& key = message.key;
  if (key.generation < generation_)
    return ignored{};
  begin_generation(key.generation);
  if (key.slices == 0 || key.slice >= key.slices)
    return protocol_error{"slice " + std::to_string(key.slice) + " of "
                          + std::to_string(key.slices)};
  if (const auto* different = differently_sliced(key))
    return protocol_error{
      "the contribution of replica " + std::to_string(key.replica)
      + " to bucket " + std::to_string(key.bucket) + ", step "
      + std::to_string(key.step) + ", has slice count "
      + std::to_string(key.slices) + ", earlier contributions "
      + std::to_string(different->slices)
      + ": the replicas do not call the same collectives"};
  auto& entry = slice_of(key);
  if (entry.done && key.step > entry.reduction_state.spec().step) {
    entry.done = false;
    entry.reduction_state.start(
      {key.generation, key.step, key.bucket, replicas_, key.slice, key.slices});
  }
  auto outcome = entry.reduction_state.on(message, data, output);
  if (auto* whole = std::get_if<finished>(&outcome)) {
    entry.sum = std::move(whole->sum);
    outcome = reducing{};
  }
  if (std::holds_alternative<reducing>(outcome))
    ++ready_;
  return outcome;
}

std::optional<slice_reducers::reduced>
slice_reducers::reduce_some(std::size_t max_elements, std::uint32_t bucket) {
  const auto ready = [](const slice& s) {
    return !s.done && s.reduction_state.complete();
  };
  auto entry = std::ranges::find_if(slices_, [&](const slice& s) {
    return s.reduction_state.spec().bucket == bucket && ready(s);
  });
  if (entry == slices_.end())
    entry = std::ranges::find_if(slices_, ready);
  if (entry == slices_.end())
    return std::nullopt;
  if (!entry->sum) {
    auto outcome = entry->reduction_state.reduce_some(max_elements);
    auto* whole = std::get_if<finished>(&outcome);
    if (!whole)
      return std::nullopt;
    entry->sum = std::move(whole->sum);
  }
  entry->done = true;
  --ready_;
  return reduced{entry->reduction_state.spec(), std::exchange(entry->sum, {})};
}

std::optional<slice_reducers::missing_inputs>
slice_reducers::missing(std::uint64_t step) const {
  for (const auto& s : slices_) {
    if (s.done || s.reduction_state.complete()
        || s.reduction_state.spec().step != step)
      continue;
    missing_inputs out{s.reduction_state.spec().bucket, {}};
    for (std::uint32_t r = 0; r < replicas_; ++r)
      if (!s.reduction_state.has(r))
        out.replicas.push_back(r);
    return out;
  }
  return std::nullopt;
}

} // namespace troupe::tree
