#include "troupe/actors/group/step_gate.hpp"

#include "troupe/actors/core/run_ended.hpp"

namespace troupe {

step_gate::step_gate(std::uint32_t replicas,
                     std::shared_ptr<completion_queue> completions)
  : inside_(replicas), completions_{std::move(completions)} {}

step_gate::holder::holder(step_gate& gate, std::uint32_t replica)
  : gate_{gate}, replica_{replica} {
  gate_.inside_.at(replica_) = true;
  if (gate_.closed_) {
    gate_.leave(replica_);
    throw run_ended{};
  }
}

step_gate::holder::~holder() {
  gate_.leave(replica_);
}

void step_gate::leave(std::uint32_t replica) {
  inside_[replica] = false;
  if (closed_)
    completions_->notify();
}

std::vector<std::uint32_t> step_gate::inside() const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t r = 0; r < inside_.size(); ++r)
    if (inside_[r])
      out.push_back(r);
  return out;
}

std::vector<std::uint32_t> step_gate::close(std::chrono::milliseconds timeout) {
  closed_ = true;
  // Once no replica is inside, the result is final: one that `inside` shows
  // later has not entered, and is about to throw `run_ended`.
  std::vector<std::uint32_t> left;
  completions_->wait_until(
    [&] {
      left = inside();
      return left.empty();
    },
    timeout);
  return left;
}

} // namespace troupe
