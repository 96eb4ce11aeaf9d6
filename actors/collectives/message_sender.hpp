#pragma once

#include "troupe/actors/collectives/tensor_transport.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <memory>
#include <utility>

namespace troupe {

/// Sends all messages of one role to other roles and injects faults into them.
class outbox {
public:
  outbox() = default;
  outbox(party from, std::shared_ptr<transport> by,
         std::shared_ptr<fault_seam> faults)
    : from_{from}, by_{std::move(by)}, faults_{std::move(faults)} {}

  const party& from() const { return from_; }

  /// Sends a tensor message through the transport. Its key states the step that
  /// it belongs to.
  void post(const party& to, letter&& x) {
    const auto fate = fate_of(to, x.what, x.at.epoch, x.at.step);
    if (fate.dropped)
      return;
    if (fate.twice)
      by_->post(to, letter{x});
    if (fate.delay > std::chrono::nanoseconds{0})
      by_->post_later(to, std::move(x), fate.delay);
    else
      by_->post(to, std::move(x));
  }

  /// Sends a message without a tensor to the mailbox of a role.
  /// @param receiver address of the receiver, for the fault injector.
  /// @param handle   handle of the receiver.
  template <class Handle, class... Ts>
  void send(const party& to, const Handle& who, subject what,
            std::uint64_t epoch, std::uint64_t step, const Ts&... xs) {
    const auto fate = fate_of(to, what, epoch, step);
    if (fate.dropped)
      return;
    if (fate.twice)
      caf::anon_send(who, xs...);
    if (fate.delay > std::chrono::nanoseconds{0})
      caf::delayed_anon_send(who, fate.delay, xs...);
    else
      caf::anon_send(who, xs...);
  }

private:
  fault_seam::fate fate_of(const party& to, subject what, std::uint64_t epoch,
                           std::uint64_t step) const {
    return faults_ ? faults_->decide(from_, to, what, epoch, step)
                   : fault_seam::fate{};
  }

  party from_;
  std::shared_ptr<transport> by_;
  std::shared_ptr<fault_seam> faults_;
};

} // namespace troupe
