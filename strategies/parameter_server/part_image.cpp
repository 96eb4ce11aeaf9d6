#include "troupe/strategies/parameter_server/part_image.hpp"

#include "troupe/strategies/parameter_server/stored_part.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::parameter_server {

namespace {

/// Slots that a rule can have at most.
constexpr std::uint32_t max_slots = 2;

[[noreturn]] void reject(const std::string& what) {
  throw std::invalid_argument("the snapshot of a part: " + what);
}

/// Takes the tensors of a part one after the other.
class tensor_source {
public:
  explicit tensor_source(std::span<const tensor> from) : from_{from} {}

  /// @param what names the tensor in errors.
  tensor next(const std::string& what) {
    if (taken_ >= from_.size() || !from_[taken_])
      reject("the tensor of " + what + " is missing");
    return from_[taken_++];
  }

  /// @errors throws std::invalid_argument if it is not a float32 tensor of this
  ///         shape.
  tensor next_like(const tensor_spec& part, const std::string& what) {
    auto out = next(what);
    if (part.type != dtype::float32 || out.spec() != part)
      reject(what + " is " + to_string(out.spec()) + ", the part "
             + to_string(part));
    return out;
  }

  std::size_t taken() const { return taken_; }

private:
  std::span<const tensor> from_;
  std::size_t taken_ = 0;
};

} // namespace

part_image stored_part::save(std::vector<tensor>& beside) const {
  part_image out{version_, next_step_, {}, {}};
  beside.push_back(value_);
  for (const auto& [optimizer, state] : optimizers_) {
    out.optimizers.push_back(
      {optimizer, state.steps, static_cast<std::uint32_t>(state.slots.size())});
    beside.insert(beside.end(), state.slots.begin(), state.slots.end());
  }
  for (const auto& [step, given] : contributions_) {
    auto& one = out.waiting.emplace_back(waiting_step_image{step, {}});
    for (const auto& [replica, gradient] : given) {
      one.replicas.push_back(replica);
      beside.push_back(gradient);
    }
  }
  return out;
}

stored_part stored_part::restore(const part_image& from,
                                 std::span<const tensor>& beside) {
  tensor_source tensors{beside};
  stored_part out{tensors.next("the value")};
  const auto spec = out.value_.spec();
  out.version_ = from.version;
  out.next_step_ = from.next_step;
  for (const auto& one : from.optimizers) {
    const auto name = "optimizer " + std::to_string(one.optimizer);
    if (one.slots > max_slots)
      reject(name + " has " + std::to_string(one.slots) + " slots");
    if (!out.optimizers_.empty()
        && out.optimizers_.rbegin()->first >= one.optimizer)
      reject(name + " is not in its place");
    auto& state = out.optimizers_[one.optimizer];
    state.steps = one.steps;
    for (std::uint32_t i = 0; i < one.slots; ++i)
      state.slots.push_back(
        tensors.next_like(spec, "slot " + std::to_string(i) + " of " + name));
  }
  for (const auto& one : from.waiting) {
    const auto name = "step " + std::to_string(one.step);
    if (one.step < from.next_step
        || (!out.contributions_.empty()
            && out.contributions_.rbegin()->first >= one.step))
      reject(name + " is not in its place");
    if (std::ranges::adjacent_find(one.replicas, std::greater_equal{})
          != one.replicas.end()
        || (!one.replicas.empty() && one.replicas.back() >= max_contributors))
      reject("the replicas of " + name + " are impossible");
    auto& given = out.contributions_[one.step];
    for (const auto replica : one.replicas)
      given.emplace(replica, tensors.next_like(spec, "the gradient of replica "
                                                       + std::to_string(replica)
                                                       + " for " + name));
  }
  beside = beside.subspan(tensors.taken());
  return out;
}

} // namespace troupe::parameter_server
