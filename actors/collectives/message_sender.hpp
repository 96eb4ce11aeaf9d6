#pragma once

#include "troupe/actors/collectives/tensor_transport.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <memory>
#include <utility>

namespace troupe {

/// Sends all messages from one role to other roles, and injects faults into
/// them.
class message_sender {
public:
  message_sender() = default;
  message_sender(role_id role, std::shared_ptr<tensor_transport> transport,
                 std::shared_ptr<fault_injector> faults)
    : role_{role},
      transport_{std::move(transport)},
      faults_{std::move(faults)} {}

  const role_id& role() const { return role_; }

  /// Sends a tensor message through the transport. The fault injector gets the
  /// generation and the step of the message's key.
  void send_tensor(const role_id& receiver, tensor_message&& message) {
    const auto fault = fault_of(receiver, message.kind, message.key.generation,
                                message.key.step);
    if (fault.dropped)
      return;
    if (fault.duplicated)
      transport_->send(receiver, tensor_message{message});
    if (fault.delay > std::chrono::nanoseconds{0})
      transport_->send_after(receiver, std::move(message), fault.delay);
    else
      transport_->send(receiver, std::move(message));
  }

  /// Sends a message without a tensor to the mailbox of a role.
  /// @param receiver the role that receives the message, for the fault
  ///                 injector.
  /// @param handle   the actor that receives the message.
  template <class Handle, class... Ts>
  void send(const role_id& receiver, const Handle& handle, message_kind kind,
            std::uint64_t generation, std::uint64_t step, const Ts&... xs) {
    const auto fault = fault_of(receiver, kind, generation, step);
    if (fault.dropped)
      return;
    if (fault.duplicated)
      caf::anon_send(handle, xs...);
    if (fault.delay > std::chrono::nanoseconds{0})
      caf::delayed_anon_send(handle, fault.delay, xs...);
    else
      caf::anon_send(handle, xs...);
  }

private:
  fault_injector::injected_fault fault_of(const role_id& receiver,
                                          message_kind kind,
                                          std::uint64_t generation,
                                          std::uint64_t step) const {
    return faults_ ? faults_->on_send(role_, receiver, kind, generation, step)
                   : fault_injector::injected_fault{};
  }

  role_id role_;
  std::shared_ptr<tensor_transport> transport_;
  std::shared_ptr<fault_injector> faults_;
};

} // namespace troupe
