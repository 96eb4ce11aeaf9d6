#pragma once

#include "troupe/actors/collectives/tensor_transport.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <memory>
#include <utility>

namespace troupe {

/// All that a role says to other roles goes through its outbox, which knows who
/// speaks, lets faults in, and hands on to a transport.
class outbox {
public:
  outbox() = default;
  outbox(party from, std::shared_ptr<transport> by,
         std::shared_ptr<fault_seam> faults)
    : from_{from}, by_{std::move(by)}, faults_{std::move(faults)} {}

  const party& from() const { return from_; }

  /// A letter; its stamp says of which step it is.
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

  /// Mail to a role whose handle is known.
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
