#include "troupe/strategies/tree/reduction.hpp"

#include "troupe/strategies/tree/fold.hpp"
#include "troupe/tensors/flush_denormals.hpp"

#include <algorithm>

namespace troupe::tree {

namespace {

template <class T>
void add_range(const tensors& contributions, range elements, tensor& sum) {
  const flush_denormals flushing;
  const auto leaf = [&](std::size_t a, std::size_t b) -> const T* {
    return b - a == 1 ? contributions[a].data<T>().data() : nullptr;
  };
  fold_all(0, contributions.size(), elements.begin, elements.end,
           sum.mutable_data<T>().data(), leaf);
}

std::string describe(const contribution& message) {
  return "the contribution of replica " + std::to_string(message.key.replica)
         + " to bucket " + std::to_string(message.key.bucket) + ", step "
         + std::to_string(message.key.step);
}

} // namespace

range range_of(std::size_t elements, std::uint32_t slice,
               std::uint32_t slices) {
  const auto each = ((elements + slices - 1) / slices + 15) / 16 * 16;
  return {std::min(elements, slice * each),
          std::min(elements, (slice + 1) * each)};
}

void reduction::start(const slice_spec& spec) {
  spec_ = spec;
  contributions_.clear();
  contributions_.resize(spec.replicas);
  sum_ = {};
  arrived_ = 0;
  next_ = 0;
}

reaction reduction::check(const contribution& message,
                          const tensor& data) const {
  const auto& key = message.key;
  if (key.generation < spec_.generation
      || (key.generation == spec_.generation && key.step < spec_.step))
    return ignored{};
  if (key.generation > spec_.generation || key.step > spec_.step)
    return protocol_error{describe(message) + " of generation "
                          + std::to_string(key.generation) + " arrived in step "
                          + std::to_string(spec_.step) + " of generation "
                          + std::to_string(spec_.generation)};
  if (key.bucket != spec_.bucket || key.slice != spec_.slice
      || key.slices != spec_.slices)
    return protocol_error{describe(message)
                          + " arrived at the reducer of bucket "
                          + std::to_string(spec_.bucket)};
  if (key.replica >= spec_.replicas)
    return protocol_error{describe(message) + ": there are "
                          + std::to_string(spec_.replicas) + " replicas"};
  if (complete() || contributions_[key.replica])
    return ignored{};
  if (!data || (data.type() != dtype::float32 && data.type() != dtype::float64))
    return protocol_error{describe(message) + " is not of float32 or float64"};
  const auto first = std::ranges::find_if(
    contributions_, [](const tensor& y) { return static_cast<bool>(y); });
  if (first != contributions_.end() && key.options != options_)
    return protocol_error{describe(message) + " requests a sum "
                          + to_string(key.options) + ", that of replica "
                          + std::to_string(first - contributions_.begin()) + " "
                          + to_string(options_)
                          + ": the replicas do not pass the same options"};
  if (first != contributions_.end() && first->spec() != data.spec())
    return protocol_error{describe(message) + " is " + to_string(data.spec())
                          + ", that of " + "replica "
                          + std::to_string(first - contributions_.begin())
                          + " is " + to_string(first->spec())};
  return missing{};
}

reaction reduction::on(const contribution& message, const tensor& data,
                       const tensor& output) {
  if (auto checked = check(message, data);
      !std::holds_alternative<missing>(checked))
    return checked;
  if (output && output.spec() != data.spec())
    return protocol_error{describe(message) + " is " + to_string(data.spec())
                          + " but its output tensor is "
                          + to_string(output.spec())};
  options_ = message.key.options;
  if (output)
    sum_ = output;
  contributions_[message.key.replica] = data;
  if (++arrived_ < spec_.replicas)
    return missing{};
  if (spec_.replicas == 1)
    return finished{std::exchange(contributions_[0], {})};
  if (!sum_ && spec_.slices > 1)
    return protocol_error{describe(message)
                          + ": no contribution carries an output tensor"};
  if (!sum_)
    sum_ = tensor{data.spec()};
  next_ = range_of(data.size(), spec_.slice, spec_.slices).begin;
  return reducing{};
}

reaction reduction::reduce_some(std::size_t max_elements) {
  if (!complete() || !sum_)
    return missing{};
  const auto end = range_of(sum_.size(), spec_.slice, spec_.slices).end;
  const auto most = std::max(max_elements, block) / block * block;
  const auto till = next_ + std::min(most, end - next_);
  if (sum_.type() == dtype::float32)
    add_range<float>(contributions_, {next_, till}, sum_);
  else
    add_range<double>(contributions_, {next_, till}, sum_);
  next_ = till;
  if (next_ < end)
    return reducing{};
  std::ranges::fill(contributions_, tensor{}); // releases the inputs
  return finished{std::exchange(sum_, {})};
}

} // namespace troupe::tree
