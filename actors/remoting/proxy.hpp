#pragma once

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/remoting/proxy_core.hpp"

#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <utility>

namespace troupe {

// -- protocol -----------------------------------------------------------------

/// Tells a proxy that a request may have timed out, or that the proxy should
/// try again to send its backlog.
struct request_timer {
  auto fields() { return std::tie(); }
};

/// A proxy. It stands for a role of another process and has the interface of
/// that role. A request may fail with an error of the role, or with
///   busy         too many requests are open, or the channel accepts no frame
///   invalid      the message is too large, or of a type that cannot be sent
///   stalled      no response in time
///   peer_lost, unreachable, protocol    the proxy terminates with this reason
/// If a caller sends a oneway message by `request`, an empty response arrives
/// when the proxy has sent the message or put it into the backlog
/// (proxy_options).
template <class Role>
using proxy_internal_actor = typename Role::template extend<
  caf::reacts_to<net::frame>, caf::reacts_to<arrived_tensors>,
  caf::reacts_to<lane_ended>, caf::reacts_to<channel_closed>,
  caf::reacts_to<request_timer>>;

// -- state --------------------------------------------------------------------

template <class Role>
struct proxy_state : proxy_core {
  static inline const char* name = "proxy";

  explicit proxy_state(typename proxy_internal_actor<Role>::pointer self)
    : self{self} {}

  /// Schedules a timer for the next deadline, unless an earlier timer is set.
  void schedule_timer() {
    const auto due = next_deadline();
    if (!due || (next_timer && *next_timer <= *due))
      return;
    next_timer = due;
    const auto wait = *due - self->clock().now();
    self->delayed_send(self, std::max(wait, wait.zero()), request_timer{});
  }

  void on_timer() {
    const auto now = self->clock().now();
    if (next_timer
        && *next_timer <= now) // otherwise another timer is still scheduled
      next_timer.reset();
    expire(now);
    schedule_timer();
  }

  typename proxy_internal_actor<Role>::pointer self;
};

// -- behavior -----------------------------------------------------------------

namespace detail {

template <class... Os>
void read_response(caf::response_promise& promise, wire::message_reader& in) {
  std::tuple<Os...> values;
  std::apply([&in](auto&... ys) { (wire::get(in, ys), ...); }, values);
  if (!in.finish())
    std::apply([&promise](auto&... ys) { promise.deliver(std::move(ys)...); },
               values);
}

template <class Sig, class... Is>
void write_message(wire::message_writer& out, std::size_t position,
                   std::uint32_t timeout_ms, const Is&... xs) {
  static const auto fingerprint = wire::signature<Sig>::fingerprint();
  out(static_cast<std::uint16_t>(position), fingerprint, timeout_ms);
  (wire::put(out, xs), ...);
}

/// Makes the handler that forwards the oneway message at this position of the
/// interface.
template <std::size_t Position, class Self, class... Is>
auto forwarder_of(
  Self* self,
  caf::typed_mpi<caf::detail::type_list<Is...>, caf::output_tuple<void>> sig) {
  return [self](const Is&... xs) -> caf::result<void> {
    using message = wire::signature<decltype(sig)>;
    auto& state = self->state;
    caf::error problem;
    if constexpr (!message::nonserializable_type().empty()) {
      ((void)xs, ...);
      problem = state.nonserializable_error(message::nonserializable_type());
    } else {
      wire::message_writer out{state.uses_lane()};
      write_message<decltype(sig)>(out, Position, 0, xs...);
      problem = state.send_oneway(std::move(out), wire::priority_of<Is...>,
                                  self->clock().now());
      state.schedule_timer();
    }
    if (!problem)
      return caf::unit;
    const auto name = wire::message_name<Is...>();
    const auto why = wire::to_wire(problem, self->system());
    if (state.must_deliver())
      self->quit(state.loss_of(name, why));
    else
      state.log_loss(name, why, self->clock().now());
    return problem;
  };
}

/// Makes the handler that forwards the request at this position of the
/// interface.
template <std::size_t Position, class Self, class... Is, class... Os>
auto forwarder_of(
  Self* self,
  caf::typed_mpi<caf::detail::type_list<Is...>, caf::output_tuple<Os...>> sig) {
  return [self](const Is&... xs) -> caf::result<Os...> {
    using message = wire::signature<decltype(sig)>;
    if constexpr (!message::nonserializable_type().empty()) {
      ((void)xs, ...);
      return self->state.nonserializable_error(message::nonserializable_type());
    } else {
      auto& state = self->state;
      wire::message_writer out{state.uses_lane()};
      write_message<decltype(sig)>(out, Position, state.request_timeout_ms(),
                                   xs...);
      auto promise = self->template make_response_promise<Os...>();
      state.send_request(std::move(out), wire::priority_of<Is...>,
                         self->clock().now(), promise, read_response<Os...>);
      state.schedule_timer();
      return promise;
    }
  };
}

template <class Role, class Self, class... Sigs, std::size_t... Positions>
typename proxy_internal_actor<Role>::behavior_type
proxy_behavior(Self* self, caf::detail::type_list<Sigs...>,
               std::index_sequence<Positions...>) {
  const auto quit = [self](const caf::error& why) {
    if (why)
      self->quit(why);
  };
  return {
    forwarder_of<Positions>(self, Sigs{})...,
    [=](net::frame& x) { quit(self->state.on_frame(x)); },
    [=](arrived_tensors& x) { quit(self->state.on_tensors(x)); },
    [=](const lane_ended& x) { quit(self->state.on_lane_ended(x)); },
    [=](const channel_closed& x) { quit(self->state.on_channel_closed(x)); },
    [=](const request_timer&) { self->state.on_timer(); },
  };
}

} // namespace detail

/// Stands for a role at the other end of a channel. The proxy owns the channel
/// and closes the channel when the proxy terminates. It is spawned like any
/// role, and its handle converts to a handle of the role.
template <class Role>
typename proxy_internal_actor<Role>::behavior_type
proxy(typename proxy_internal_actor<Role>::template stateful_pointer<
        proxy_state<Role>>
        self,
      std::shared_ptr<net::channel> channel, proxy_options options) {
  install_exception_handler(self);
  channel->set_listener(deliver_to_mailbox(self->address()));
  if (options.lane)
    options.lane->set_listener(deliver_tensors_to_mailbox(self->address()));
  self->state.open(std::move(channel), options);
  using list = typename Role::signatures;
  return detail::proxy_behavior<Role>(
    self, list{},
    std::make_index_sequence<caf::detail::tl_size<list>::value>{});
}

} // namespace troupe
