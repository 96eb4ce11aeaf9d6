#include "troupe/strategies/tree/reduction.hpp"

#include "troupe/strategies/tree/fold.hpp"

#include <algorithm>

namespace troupe::tree {

namespace {

template <class T>
void add_range(const tensors& parts, range of, tensor& sum) {
  const auto leaf = [&](std::size_t a, std::size_t b) -> const T* {
    return b - a == 1 ? parts[a].data<T>().data() : nullptr;
  };
  fold_all(0, parts.size(), of.begin, of.end, sum.mutable_data<T>().data(),
           leaf);
}

std::string named(const part& x) {
  return "the contribution of replica " + std::to_string(x.at.replica)
         + " to bucket " + std::to_string(x.at.bucket) + ", step "
         + std::to_string(x.at.step);
}

} // namespace

range range_of(std::size_t elements, std::uint32_t slice,
               std::uint32_t slices) {
  const auto each = ((elements + slices - 1) / slices + 15) / 16 * 16;
  return {std::min(elements, slice * each),
          std::min(elements, (slice + 1) * each)};
}

void tree_sum::open(const seat& at) {
  at_ = at;
  parts_.clear();
  parts_.resize(at.replicas);
  sum_ = {};
  arrived_ = 0;
  next_ = 0;
}

reaction tree_sum::check(const part& x, const tensor& data) const {
  const auto& at = x.at;
  if (at.epoch < at_.epoch || (at.epoch == at_.epoch && at.step < at_.step))
    return ignored{};
  if (at.epoch > at_.epoch || at.step > at_.step)
    return fault{named(x) + " of generation " + std::to_string(at.epoch)
                 + " arrived in step " + std::to_string(at_.step)
                 + " of generation " + std::to_string(at_.epoch)};
  if (at.bucket != at_.bucket || at.slice != at_.slice
      || at.slices != at_.slices)
    return fault{named(x) + " arrived at the reducer of bucket "
                 + std::to_string(at_.bucket)};
  if (at.replica >= at_.replicas)
    return fault{named(x) + ": there are " + std::to_string(at_.replicas)
                 + " replicas"};
  if (complete() || parts_[at.replica])
    return ignored{};
  if (!data || (data.type() != dtype::float32 && data.type() != dtype::float64))
    return fault{named(x) + " is not of float32 or float64"};
  const auto other = std::ranges::find_if(
    parts_, [](const tensor& y) { return static_cast<bool>(y); });
  if (other != parts_.end() && at.said != said_)
    return fault{named(x) + " requests a sum " + to_string(at.said)
                 + ", that of replica " + std::to_string(other - parts_.begin())
                 + " " + to_string(said_)
                 + ": the replicas do not pass the same options"};
  if (other != parts_.end() && other->spec() != data.spec())
    return fault{named(x) + " is " + to_string(data.spec()) + ", that of "
                 + "replica " + std::to_string(other - parts_.begin()) + " is "
                 + to_string(other->spec())};
  return missing{};
}

reaction tree_sum::on(const part& x, const tensor& data, const tensor& room) {
  if (auto verdict = check(x, data); !std::holds_alternative<missing>(verdict))
    return verdict;
  if (room && room.spec() != data.spec())
    return fault{named(x) + " is " + to_string(data.spec())
                 + " but its output tensor is " + to_string(room.spec())};
  said_ = x.at.said;
  if (room)
    sum_ = room;
  parts_[x.at.replica] = data;
  if (++arrived_ < at_.replicas)
    return missing{};
  if (at_.replicas == 1)
    return finished{std::exchange(parts_[0], {})};
  if (!sum_ && at_.slices > 1)
    return fault{named(x) + ": no contribution carries an output tensor"};
  if (!sum_)
    sum_ = tensor{data.spec()};
  next_ = range_of(data.size(), at_.slice, at_.slices).begin;
  return adding{};
}

reaction tree_sum::work(std::size_t max_elements) {
  if (!complete() || !sum_)
    return missing{};
  const auto end = range_of(sum_.size(), at_.slice, at_.slices).end;
  const auto most = std::max(max_elements, block) / block * block;
  const auto till = next_ + std::min(most, end - next_);
  if (sum_.type() == dtype::float32)
    add_range<float>(parts_, {next_, till}, sum_);
  else
    add_range<double>(parts_, {next_, till}, sum_);
  next_ = till;
  if (next_ < end)
    return adding{};
  std::ranges::fill(parts_, tensor{}); // releases the inputs
  return finished{std::exchange(sum_, {})};
}

} // namespace troupe::tree
