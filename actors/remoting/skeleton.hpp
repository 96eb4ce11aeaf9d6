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

/// SKELETON: receives the frames of its channel, and the channel's end.
using gateway_actor =
  caf::typed_actor<caf::reacts_to<net::frame>, caf::reacts_to<link_ended>>;

// -- state --------------------------------------------------------------------

template <class Role>
struct gateway_state : gateway_core {
  static inline const char* name = "skeleton";

  explicit gateway_state(gateway_actor::pointer self) : self{self} {}

  /// Decodes a frame and sends the message to the role.
  /// @returns the reason with which the skeleton must terminate, or none.
  caf::error hear(const net::frame& x) {
    if (!admit(x))
      return {};
    using list = typename Role::signatures;
    net::reader from{x.payload};
    wire::message_head head;
    from(head.signature, head.form, head.patience);
    auto why =
      take(x, head, from, list{},
           std::make_index_sequence<caf::detail::tl_size<list>::value>{});
    return why.empty() ? caf::error{} : accuse(x, why);
  }

  gateway_actor::pointer self;
  Role target;

private:
  /// @returns how the frame violates the protocol, or an empty text.
  template <class... Sigs, std::size_t... Positions>
  std::string take(const net::frame& x, const wire::message_head& head,
                   net::reader& from, caf::detail::type_list<Sigs...>,
                   std::index_sequence<Positions...>) {
    if (from.failed())
      return "malformed message: " + to_string(*from.finish());
    std::string why = "signature " + std::to_string(head.signature)
                      + " does not exist; the interface has "
                      + std::to_string(sizeof...(Sigs));
    (void)((head.signature == Positions
            && (why = take_one(x, head, from, Sigs{}), true))
           || ...);
    return why;
  }

  template <class Sig>
  std::string take_one(const net::frame& x, const wire::message_head& head,
                       net::reader& from, Sig sig) {
    using line = wire::signature<Sig>;
    const auto which = "signature " + std::to_string(head.signature);
    if constexpr (!line::local().empty()) {
      return which + " has a " + std::string{line::local()}
             + ", which cannot leave its process";
    } else {
      static const auto form = line::form();
      const auto kind =
        line::is_fact ? net::frame_kind::fact : net::frame_kind::request;
      if (head.form != form)
        return which
               + " has another fingerprint in this process; run the same "
                 "version of the program at both ends";
      if (x.kind != kind)
        return which + " is a "
               + (line::is_fact ? "oneway message, not a request"
                                : "request, not a oneway message");
      typename line::inputs values;
      std::apply([&from](auto&... xs) { (wire::get(from, xs), ...); }, values);
      if (const auto fault = from.finish())
        return "malformed arguments of " + which + ": " + to_string(*fault);
      hand_on(x, head, sig, values);
      return {};
    }
  }

  template <class... Is, class... Os>
  void hand_on(
    const net::frame& x, const wire::message_head& head,
    caf::typed_mpi<caf::detail::type_list<Is...>, caf::output_tuple<Os...>>,
    std::tuple<Is...>& values) {
    std::apply(
      [&](auto&... xs) {
        if constexpr ((std::is_void_v<Os> && ...))
          tell(x.priority, std::move(xs)...);
        else if (begin(x))
          ask<Os...>(x.tag, patience(head.patience), std::move(xs)...);
      },
      values);
  }

  template <class... Is>
  void tell(net::priority how, Is&&... xs) {
    caf::anon_send(target, std::move(xs)...);
    if (handed_on(how))
      ask_what_was_read();
  }

  /// Requests a receipt. CAF answers this request for the role, in the order of
  /// its mailbox, so the role has then read all earlier messages.
  void ask_what_was_read() {
    begin_receipt();
    self
      ->request(caf::actor_cast<caf::actor>(target), receipt_timeout,
                caf::sys_atom_v, caf::get_atom_v, std::string{"info"})
      .then(
        [this](caf::ok_atom, const std::string&, const caf::strong_actor_ptr&,
               const std::string&) {
          if (on_receipt())
            ask_what_was_read();
        },
        [this](const caf::error& why) {
          if (why == caf::sec::request_timeout) // the role is busy: ask again
            ask_what_was_read();
        });
  }

  template <class... Os, class... Is>
  void ask(std::uint64_t tag, std::chrono::milliseconds patience, Is&&... xs) {
    self->request(target, patience, std::move(xs)...)
      .then(
        [this, tag](const Os&... ys) {
          net::writer to;
          (wire::put(to, ys), ...);
          succeed(tag, std::move(to), wire::priority_of<Os...>);
        },
        [this, tag](const caf::error& why) {
          fail(tag, wire::note_of(why, self->system()));
        });
  }
};

// -- behavior -----------------------------------------------------------------

/// Delivers the messages of the proxy at the other end of a channel to a role,
/// and sends back the responses. It owns the channel. The channel does not keep
/// it alive, so the code that spawns it must keep the handle.
template <class Role>
gateway_actor::behavior_type
gateway(gateway_actor::stateful_pointer<gateway_state<Role>> self, Role target,
        std::shared_ptr<net::link> out, gateway_options options) {
  keep_last_words(self);
  out->listen(mail_to(self->address()));
  self->state.open(std::move(out), options);
  self->monitor(target);
  self->state.target = std::move(target);
  self->set_down_handler([self](const caf::down_msg& x) {
    self->quit(self->state.on_role_lost(x.reason, self->system()));
  });
  return {
    [self](const net::frame& x) {
      if (const auto why = self->state.hear(x))
        self->quit(why);
    },
    [self](const link_ended& x) { self->quit(caf::make_error(x.code, x.why)); },
  };
}

} // namespace troupe
