#pragma once

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/remoting/skeleton_core.hpp"

#include <caf/actor_cast.hpp>
#include <caf/sec.hpp>
#include <caf/send.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <utility>

namespace troupe {

// -- protocol -----------------------------------------------------------------

/// A skeleton. It receives the frames of its channel, the tensors of its
/// channel that pass over the lane, and the ends of channel and lane.
using skeleton_actor =
  caf::typed_actor<caf::reacts_to<net::frame>, caf::reacts_to<arrived_tensors>,
                   caf::reacts_to<lane_ended>, caf::reacts_to<channel_closed>>;

// -- state --------------------------------------------------------------------

template <class Role>
struct skeleton_state : skeleton_core {
  static inline const char* name = "skeleton";

  explicit skeleton_state(skeleton_actor::pointer self) : self{self} {}

  /// Decodes the messages that are complete and sends them to the role.
  /// @returns the error with which the skeleton must terminate. Empty: it
  ///          continues.
  caf::error handle_messages() {
    while (auto message = next_message())
      if (auto violation = handle(*message); !violation.empty())
        return report_violation(message->frame, violation);
    return {};
  }

  skeleton_actor::pointer self;
  Role target;

private:
  /// Decodes a message and sends it to the role. Returns how the message
  /// violates the protocol, or an empty text.
  std::string handle(received_message& message) {
    using list = typename Role::signatures;
    wire::message_reader in{message.frame.payload,
                            std::move(message.lane_tensors)};
    wire::message_head head;
    in(head.signature, head.fingerprint, head.timeout_ms);
    return decode(
      message, head, in, list{},
      std::make_index_sequence<caf::detail::tl_size<list>::value>{});
  }

  template <class... Sigs, std::size_t... Positions>
  std::string decode(const received_message& message,
                     const wire::message_head& head, wire::message_reader& in,
                     caf::detail::type_list<Sigs...>,
                     std::index_sequence<Positions...>) {
    if (in.failed())
      return "malformed message: " + to_string(*in.finish());
    std::string violation = "signature " + std::to_string(head.signature)
                            + " does not exist; the interface has "
                            + std::to_string(sizeof...(Sigs));
    (void)((head.signature == Positions
            && (violation = decode_as(message, head, in, Sigs{}), true))
           || ...);
    return violation;
  }

  template <class Sig>
  std::string decode_as(const received_message& received,
                        const wire::message_head& head,
                        wire::message_reader& in, Sig sig) {
    using message = wire::signature<Sig>;
    const auto signature_name = "signature " + std::to_string(head.signature);
    if constexpr (!message::nonserializable_type().empty()) {
      return signature_name + " has a "
             + std::string{message::nonserializable_type()}
             + ", which cannot leave its process";
    } else {
      static const auto fingerprint = message::fingerprint();
      const auto kind =
        message::is_oneway ? net::frame_kind::oneway : net::frame_kind::request;
      if (head.fingerprint != fingerprint)
        return signature_name
               + " has another fingerprint in this process; run the same "
                 "version of the program at both ends";
      if (received.frame.kind != kind)
        return signature_name + " is a "
               + (message::is_oneway ? "oneway message, not a request"
                                     : "request, not a oneway message");
      typename message::inputs values;
      std::apply([&in](auto&... xs) { (wire::get(in, xs), ...); }, values);
      if (const auto fault = in.finish())
        return "malformed arguments of " + signature_name + ": "
               + to_string(*fault);
      dispatch(received, head, sig, values);
      return {};
    }
  }

  template <class... Is, class... Os>
  void dispatch(
    const received_message& message, const wire::message_head& head,
    caf::typed_mpi<caf::detail::type_list<Is...>, caf::output_tuple<Os...>>,
    std::tuple<Is...>& values) {
    std::apply(
      [&](auto&... xs) {
        if constexpr ((std::is_void_v<Os> && ...))
          send_to_role(message, std::move(xs)...);
        else if (begin_request(message)) {
          request_from_role<Os...>(
            message.frame.tag, timeout_of(head.timeout_ms), std::move(xs)...);
          if (on_request_delivered(message))
            request_receipt();
        }
      },
      values);
  }

  template <class... Is>
  void send_to_role(const received_message& message, Is&&... xs) {
    caf::anon_send(target, std::move(xs)...);
    if (on_oneway_delivered(message))
      request_receipt();
  }

  /// Requests a receipt. CAF answers this request on behalf of the role, in the
  /// order of the role's mailbox. The answer proves that the role has read all
  /// earlier messages.
  void request_receipt() {
    begin_receipt();
    self
      ->request(caf::actor_cast<caf::actor>(target), receipt_timeout,
                caf::sys_atom_v, caf::get_atom_v, std::string{"info"})
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

  template <class... Os, class... Is>
  void request_from_role(std::uint64_t tag, std::chrono::milliseconds timeout,
                         Is&&... xs) {
    self->request(target, timeout, std::move(xs)...)
      .then(
        [this, tag](const Os&... ys) {
          wire::message_writer out{uses_lane()};
          (wire::put(out, ys), ...);
          respond(tag, std::move(out), wire::priority_of<Os...>);
        },
        [this, tag](const caf::error& why) {
          fail_request(tag, wire::to_wire(why, self->system()));
        });
  }
};

// -- behavior -----------------------------------------------------------------

/// Delivers the messages of the proxy at the other end of a channel to a role,
/// and sends back the responses. The skeleton owns the channel. The channel
/// does not keep the skeleton alive, so the code that spawns the skeleton must
/// keep its handle.
template <class Role>
skeleton_actor::behavior_type
skeleton(skeleton_actor::stateful_pointer<skeleton_state<Role>> self,
         Role target, std::shared_ptr<net::channel> channel,
         skeleton_options options) {
  install_exception_handler(self);
  channel->set_listener(deliver_to_mailbox(self->address()));
  if (options.lane)
    options.lane->set_listener(deliver_tensors_to_mailbox(self->address()));
  self->state.open(std::move(channel), options);
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

} // namespace troupe
