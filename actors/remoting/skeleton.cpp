#include "troupe/actors/remoting/skeleton.hpp"

#include "troupe/actors/core/exception_handler.hpp"

#include <caf/sec.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

namespace troupe {

// -- state --------------------------------------------------------------------

caf::error skeleton_state::handle_messages() {
  while (auto message = next_message())
    if (auto violation = handle(*message); !violation.empty())
      return report_violation(message->frame, violation);
  return {};
}

/// Decodes a message and sends it to the role. Returns how the message violates
/// the protocol, or an empty text.
std::string skeleton_state::handle(received_message& message) {
  wire::message_reader in{message.frame.payload,
                          std::move(message.lane_tensors)};
  wire::message_head head;
  in(head.signature, head.fingerprint, head.timeout_ms);
  if (in.failed())
    return "malformed message: " + to_string(*in.finish());
  const auto signature_name = "signature " + std::to_string(head.signature);
  if (head.signature >= signatures.size())
    return signature_name + " does not exist; the interface has "
           + std::to_string(signatures.size());
  const auto& signature = signatures[head.signature];
  if (!signature.read)
    return signature_name + " has a "
           + std::string{signature.nonserializable_type}
           + ", which cannot leave its process";
  if (head.fingerprint != signature.fingerprint)
    return signature_name
           + " has another fingerprint in this process; run the same version "
             "of the program at both ends";
  if (message.frame.kind
      != (signature.is_oneway ? net::frame_kind::oneway
                              : net::frame_kind::request))
    return signature_name + " is a "
           + (signature.is_oneway ? "oneway message, not a request"
                                  : "request, not a oneway message");
  auto values = signature.read(in);
  if (const auto fault = in.finish())
    return "malformed arguments of " + signature_name + ": "
           + to_string(*fault);
  dispatch(message, head, std::move(values));
  return {};
}

/// Sends a message to the role.
void skeleton_state::dispatch(const received_message& received,
                              const wire::message_head& head,
                              caf::message&& message) {
  const auto& signature = signatures[head.signature];
  bool is_receipt_due = false;
  if (signature.is_oneway) {
    caf::anon_send(target, std::move(message));
    is_receipt_due = on_oneway_delivered(received);
  } else if (begin_request(received)) {
    signature.request(*this, received.frame.tag, timeout_of(head.timeout_ms),
                      std::move(message));
    is_receipt_due = on_request_delivered(received);
  }
  if (is_receipt_due)
    request_receipt();
}

/// Requests a receipt. CAF answers this request on behalf of the role, in the
/// order of the role's mailbox. The answer proves that the role has read all
/// earlier messages.
void skeleton_state::request_receipt() {
  begin_receipt();
  self
    ->request(target, receipt_timeout, caf::sys_atom_v, caf::get_atom_v,
              std::string{"info"})
    .then(
      [this](caf::ok_atom, const std::string&, const caf::strong_actor_ptr&,
             const std::string&) {
        if (on_receipt())
          request_receipt();
      },
      [this](const caf::error& why) {
        if (why == caf::sec::request_timeout) // the role is busy: ask again
          request_receipt();
      });
}

// -- behavior -----------------------------------------------------------------

namespace {

skeleton_actor::behavior_type
skeleton(skeleton_actor::stateful_pointer<skeleton_state> self,
         std::span<const skeleton_signature> signatures, caf::actor target,
         std::shared_ptr<net::channel> channel,
         const skeleton_options& options) {
  install_exception_handler(self);
  channel->set_listener(deliver_to_mailbox(self->address()));
  if (options.lane)
    options.lane->set_listener(deliver_tensors_to_mailbox(self->address()));
  self->state.open(std::move(channel), options);
  self->state.signatures = signatures;
  self->monitor(target);
  self->state.target = std::move(target);
  self->set_down_handler([self](const caf::down_msg& x) {
    self->quit(self->state.on_role_lost(x.reason, self->system()));
  });
  const auto handle_messages = [self] {
    if (const auto why = self->state.handle_messages())
      self->quit(why);
  };
  return {
    [=](net::frame& x) {
      self->state.add(x);
      handle_messages();
    },
    [=](arrived_tensors& x) {
      self->state.add(x);
      handle_messages();
    },
    [self](const lane_ended& x) {
      if (x.code == ec::protocol) // otherwise the channel reports the end
        self->quit(caf::make_error(x.code, x.reason));
    },
    [self](const channel_closed& x) {
      self->quit(caf::make_error(x.code, x.reason));
    },
  };
}

} // namespace

skeleton_actor
detail::spawn_skeleton(caf::actor_system& sys,
                       std::span<const skeleton_signature> signatures,
                       caf::actor target, std::shared_ptr<net::channel> channel,
                       const skeleton_options& options) {
  return sys.spawn(skeleton, signatures, std::move(target), std::move(channel),
                   options);
}

} // namespace troupe
