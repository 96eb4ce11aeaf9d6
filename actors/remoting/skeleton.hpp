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

/// A skeleton. It receives the frames of its channel and the end of the
/// channel.
using skeleton_actor =
  caf::typed_actor<caf::reacts_to<net::frame>, caf::reacts_to<channel_closed>>;

// -- state --------------------------------------------------------------------

template <class Role>
struct skeleton_state : skeleton_core {
  static inline const char* name = "skeleton";

  explicit skeleton_state(skeleton_actor::pointer self) : self{self} {}

  /// Decodes a frame and sends the message to the role.
  /// @returns the error with which the skeleton must terminate. Empty: it
  ///          continues.
  caf::error on_frame(const net::frame& frame) {
    if (!accept_frame(frame))
      return {};
    using list = typename Role::signatures;
    net::reader in{frame.payload};
    wire::message_head head;
    in(head.signature, head.fingerprint, head.timeout_ms);
    auto violation =
      decode(frame, head, in, list{},
             std::make_index_sequence<caf::detail::tl_size<list>::value>{});
    return violation.empty() ? caf::error{}
                             : report_violation(frame, violation);
  }

  skeleton_actor::pointer self;
  Role target;

private:
  /// Decodes a message and sends it to the role. Returns how the frame violates
  /// the protocol, or an empty text.
  template <class... Sigs, std::size_t... Positions>
  std::string decode(const net::frame& frame, const wire::message_head& head,
                     net::reader& in, caf::detail::type_list<Sigs...>,
                     std::index_sequence<Positions...>) {
    if (in.failed())
      return "malformed message: " + to_string(*in.finish());
    std::string violation = "signature " + std::to_string(head.signature)
                            + " does not exist; the interface has "
                            + std::to_string(sizeof...(Sigs));
    (void)((head.signature == Positions
            && (violation = decode_as(frame, head, in, Sigs{}), true))
           || ...);
    return violation;
  }

  template <class Sig>
  std::string decode_as(const net::frame& frame, const wire::message_head& head,
                        net::reader& in, Sig sig) {
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
      if (frame.kind != kind)
        return signature_name + " is a "
               + (message::is_oneway ? "oneway message, not a request"
                                     : "request, not a oneway message");
      typename message::inputs values;
      std::apply([&in](auto&... xs) { (wire::get(in, xs), ...); }, values);
      if (const auto fault = in.finish())
        return "malformed arguments of " + signature_name + ": "
               + to_string(*fault);
      dispatch(frame, head, sig, values);
      return {};
    }
  }

  template <class... Is, class... Os>
  void dispatch(
    const net::frame& frame, const wire::message_head& head,
    caf::typed_mpi<caf::detail::type_list<Is...>, caf::output_tuple<Os...>>,
    std::tuple<Is...>& values) {
    std::apply(
      [&](auto&... xs) {
        if constexpr ((std::is_void_v<Os> && ...))
          send_to_role(frame.priority, std::move(xs)...);
        else if (begin_request(frame))
          request_from_role<Os...>(frame.tag, timeout_of(head.timeout_ms),
                                   std::move(xs)...);
      },
      values);
  }

  template <class... Is>
  void send_to_role(net::priority priority, Is&&... xs) {
    caf::anon_send(target, std::move(xs)...);
    if (on_oneway_delivered(priority))
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
          net::writer out;
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
  self->state.open(std::move(channel), options);
  self->monitor(target);
  self->state.target = std::move(target);
  self->set_down_handler([self](const caf::down_msg& x) {
    self->quit(self->state.on_role_lost(x.reason, self->system()));
  });
  return {
    [self](const net::frame& x) {
      if (const auto why = self->state.on_frame(x))
        self->quit(why);
    },
    [self](const channel_closed& x) {
      self->quit(caf::make_error(x.code, x.reason));
    },
  };
}

} // namespace troupe
