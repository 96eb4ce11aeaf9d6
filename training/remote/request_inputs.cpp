#include "troupe/training/remote/request_inputs.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/step.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace troupe {

std::string fault_of(const input_list& inputs) {
  const auto& [ids, counts, all] = inputs;
  if (std::accumulate(counts.begin(), counts.end(), std::uint64_t{0})
      != all.size())
    return "the tensor counts do not match the number of tensors";
  if (ids.empty() ? counts.size() > 1 : counts.size() != ids.size())
    return "inputs with " + std::to_string(counts.size())
           + " tensor counts for " + std::to_string(ids.size()) + " replicas";
  if (std::ranges::adjacent_find(ids, std::ranges::greater_equal{})
      != ids.end())
    return "the replicas of the inputs do not ascend";
  return {};
}

/// @pre the lock is held.
void request_inputs::put(const input_list& inputs) {
  if (inputs.replica_ids.empty() && !inputs.tensor_counts.empty())
    common_ = inputs.all;
  auto next = inputs.all.begin();
  for (std::size_t i = 0; i < inputs.replica_ids.size(); ++i) {
    const auto end = next + inputs.tensor_counts[i];
    by_replica_.try_emplace(inputs.replica_ids[i], tensors(next, end));
    next = end;
  }
}

bool request_inputs::begin(std::uint64_t number, const input_list& inputs) {
  const std::lock_guard hold{lock_};
  if (number_)
    return false;
  number_ = number;
  put(inputs);
  return true;
}

bool request_inputs::add(std::uint64_t number, const input_list& inputs) {
  const std::lock_guard hold{lock_};
  if (number_ != number)
    return false;
  put(inputs);
  changed_.notify_all();
  return true;
}

void request_inputs::end() {
  const std::lock_guard hold{lock_};
  number_.reset();
  common_.reset();
  by_replica_.clear();
}

tensors request_inputs::common() const {
  const std::lock_guard hold{lock_};
  if (!common_)
    throw job_error{ec::protocol, "a function that is called once on each node "
                                  "got inputs of its own for each replica"};
  return *common_;
}

tensors request_inputs::wait_for(std::uint32_t replica,
                                 std::chrono::milliseconds timeout) {
  std::unique_lock hold{lock_};
  const auto is_known = [&] {
    return common_ || by_replica_.contains(replica);
  };
  changed_.wait_for(hold, timeout, [&] { return closed_ || is_known(); });
  if (closed_)
    throw superseded{};
  if (!is_known())
    throw job_error{ec::stalled,
                    "the client did not send the inputs of replica "
                      + std::to_string(replica) + " within "
                      + std::to_string(timeout.count()) + " ms"};
  return common_ ? *common_ : by_replica_.at(replica);
}

void request_inputs::close() {
  const std::lock_guard hold{lock_};
  closed_ = true;
  changed_.notify_all();
}

} // namespace troupe
