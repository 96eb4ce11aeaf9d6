#include "troupe/actors/group/step_gate.hpp"

#include "troupe/actors/core/error_code.hpp"

namespace troupe {

step_gate::step_gate(std::uint32_t replicas, std::shared_ptr<work_desk> tell)
  : inside_(replicas), tell_{std::move(tell)} {}

step_gate::pass::pass(step_gate& of, std::uint32_t replica)
  : of_{of}, replica_{replica} {
  of_.inside_.at(replica_) = true;
  if (of_.closed_) {
    of_.leave(replica_);
    throw failure(ec::cancelled, "the caller of this function has returned");
  }
}

step_gate::pass::~pass() {
  of_.leave(replica_);
}

void step_gate::leave(std::uint32_t replica) {
  inside_[replica] = false;
  if (closed_)
    tell_->nudge();
}

std::vector<std::uint32_t> step_gate::inside() const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t r = 0; r < inside_.size(); ++r)
    if (inside_[r])
      out.push_back(r);
  return out;
}

std::vector<std::uint32_t>
step_gate::close(std::chrono::milliseconds patience) {
  closed_ = true;
  tell_->await([this] { return inside().empty(); }, patience);
  return inside();
}

} // namespace troupe
