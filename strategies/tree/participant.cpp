#include "troupe/strategies/tree/participant.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe::tree {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw std::logic_error(what);
}

} // namespace

member::member(std::uint32_t replica, std::uint32_t replicas)
  : replica_{replica}, replicas_{replicas} {}

void member::open(std::uint64_t epoch, std::uint64_t step) {
  const bool same = epoch == epoch_;
  epoch_ = epoch;
  step_ = step;
  buckets_.clear();
  open_ = 0;
  std::erase_if(collections_,
                [&](const collection& c) { return !same || c.step < step; });
}

member::bucket_state* member::find(std::uint32_t bucket) {
  const auto it = std::ranges::find(buckets_, bucket, &bucket_state::number);
  return it == buckets_.end() ? nullptr : &*it;
}

tensor member::contribute(std::uint32_t bucket, const tensor& part,
                          std::uint32_t slices) {
  if (find(bucket))
    refuse("bucket " + std::to_string(bucket)
           + " was contributed to twice in a step");
  buckets_.push_back({bucket, slices, 0, 0, {}, false});
  ++open_;
  return slices > 1 && replica_ == 0 ? tensor{part.spec()} : tensor{};
}

bool member::on(const sum& x, const tensor& whole) {
  if (x.at.epoch != epoch_ || x.at.step != step_)
    return false;
  auto* mine = find(x.at.bucket);
  if (!mine || mine->done || x.at.slices != mine->slices
      || x.at.slice >= mine->slices || (mine->arrived >> x.at.slice & 1))
    return false;
  mine->arrived |= std::uint64_t{1} << x.at.slice;
  mine->whole = whole;
  if (++mine->count < mine->slices)
    return false;
  mine->done = true;
  --open_;
  return true;
}

const tensor& member::sum_of(std::uint32_t bucket) const {
  static const tensor none;
  const auto it = std::ranges::find(buckets_, bucket, &bucket_state::number);
  if (it == buckets_.end())
    refuse("the sum of bucket " + std::to_string(bucket)
           + " was asked for before a contribution to it");
  return it->done ? it->whole : none;
}

std::uint32_t member::unsettled() const {
  return std::ranges::find(buckets_, false, &bucket_state::done)->number;
}

member::collection& member::collected(std::uint64_t step,
                                      std::uint32_t bucket) {
  const auto it = std::ranges::find_if(collections_, [&](const collection& c) {
    return c.step == step && c.number == bucket;
  });
  if (it != collections_.end())
    return *it;
  collections_.push_back({step, bucket, 0, tensors(replicas_)});
  return collections_.back();
}

bool member::add(collection& to, std::uint32_t from, const tensor& part) {
  to.parts[from] = part;
  return ++to.count == replicas_;
}

void member::gather(std::uint32_t bucket, const tensor& part) {
  auto& to = collected(step_, bucket);
  if (to.parts[replica_])
    refuse("gather " + std::to_string(bucket) + " was called twice in a step");
  add(to, replica_, part);
}

bool member::on(const share& x, const tensor& part) {
  if (x.at.epoch != epoch_ || x.at.step < step_ || x.at.replica >= replicas_
      || !part)
    return false;
  auto& to = collected(x.at.step, x.at.bucket);
  if (to.parts[x.at.replica])
    return false;
  return add(to, x.at.replica, part) && x.at.step == step_;
}

const member::collection* member::find_collection(std::uint32_t bucket) const {
  const auto it = std::ranges::find_if(collections_, [&](const collection& c) {
    return c.step == step_ && c.number == bucket;
  });
  return it == collections_.end() ? nullptr : &*it;
}

const tensors* member::gathered(std::uint32_t bucket) const {
  const auto* it = find_collection(bucket);
  return it && it->count == replicas_ ? &it->parts : nullptr;
}

std::vector<std::uint32_t>
member::missing_in_gather(std::uint32_t bucket) const {
  std::vector<std::uint32_t> out;
  if (const auto* it = find_collection(bucket))
    for (std::uint32_t r = 0; r < replicas_; ++r)
      if (!it->parts[r])
        out.push_back(r);
  return out;
}

} // namespace troupe::tree
