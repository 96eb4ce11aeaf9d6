#pragma once

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/remoting/proxy_core.hpp"

#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <utility>

namespace troupe {

// -- protocol -----------------------------------------------------------------

/// Timer message of a proxy.
struct call_is_due {
  auto fields() { return std::tie(); }
};

/// PROXY: stands for a role of another process, with the role's interface.
/// Besides the role's own errors, a request may fail with
///   busy         too many requests are open, or the channel accepts no more
///   invalid      the message can never be sent
///   stalled      no response in time
///   peer_lost, unreachable, protocol    the proxy terminates with this reason
/// If a oneway message is sent as a request, the response arrives when the
/// message was sent or put into the backlog (proxy_options).
template <class Role>
using proxy_inside =
  typename Role::template extend<caf::reacts_to<net::frame>,
                                 caf::reacts_to<link_ended>,
                                 caf::reacts_to<call_is_due>>;

// -- state --------------------------------------------------------------------

template <class Role>
struct proxy_state : proxy_core {
  static inline const char* name = "proxy";

  explicit proxy_state(typename proxy_inside<Role>::pointer self)
    : self{self} {}

  /// Schedules a timer for the next deadline, unless an earlier one is set.
  void tick() {
    const auto due = next_deadline();
    if (!due || (alarm && *alarm <= *due))
      return;
    alarm = due;
    const auto wait = *due - self->clock().now();
    self->delayed_send(self, std::max(wait, wait.zero()), call_is_due{});
  }

  void on_due() {
    const auto now = self->clock().now();
    if (alarm && *alarm <= now) // otherwise another timer is still scheduled
      alarm.reset();
    expire(now);
    tick();
  }

  typename proxy_inside<Role>::pointer self;
};

// -- behavior -----------------------------------------------------------------

namespace detail {

template <class... Os>
void read_answer(caf::response_promise& to, net::reader& from) {
  std::tuple<Os...> values;
  std::apply([&from](auto&... ys) { (wire::get(from, ys), ...); }, values);
  if (!from.finish())
    std::apply([&to](auto&... ys) { to.deliver(std::move(ys)...); }, values);
}

template <class Sig, class... Is>
void write_message(net::writer& to, std::size_t position,
                   std::uint32_t patience, const Is&... xs) {
  static const auto form = wire::signature<Sig>::form();
  to(static_cast<std::uint16_t>(position), form, patience);
  (wire::put(to, xs), ...);
}

/// Makes the handler that forwards the oneway message at this position of the
/// interface.
template <std::size_t Position, class Self, class... Is>
auto forward_of(
  Self* self,
  caf::typed_mpi<caf::detail::type_list<Is...>, caf::output_tuple<void>> sig) {
  return [self](const Is&... xs) -> caf::result<void> {
    using line = wire::signature<decltype(sig)>;
    auto& state = self->state;
    caf::error problem;
    if constexpr (!line::local().empty()) {
      ((void)xs, ...);
      problem = state.refuse(line::local());
    } else {
      net::writer to;
      write_message<decltype(sig)>(to, Position, 0, xs...);
      problem = state.post_fact(std::move(to), wire::priority_of<Is...>,
                                self->clock().now());
      state.tick();
    }
    if (!problem)
      return caf::unit;
    if (state.must_deliver())
      self->quit(problem);
    return problem;
  };
}

/// Makes the handler that forwards the request at this position of the
/// interface.
template <std::size_t Position, class Self, class... Is, class... Os>
auto forward_of(
  Self* self,
  caf::typed_mpi<caf::detail::type_list<Is...>, caf::output_tuple<Os...>> sig) {
  return [self](const Is&... xs) -> caf::result<Os...> {
    using line = wire::signature<decltype(sig)>;
    if constexpr (!line::local().empty()) {
      ((void)xs, ...);
      return self->state.refuse(line::local());
    } else {
      auto& it = self->state;
      net::writer to;
      write_message<decltype(sig)>(to, Position, it.patience_ms(), xs...);
      auto promise = self->template make_response_promise<Os...>();
      it.post_request(std::move(to), wire::priority_of<Is...>,
                      self->clock().now(), promise, read_answer<Os...>);
      it.tick();
      return promise;
    }
  };
}

template <class Role, class Self, class... Sigs, std::size_t... Positions>
typename proxy_inside<Role>::behavior_type
proxy_behavior(Self* self, caf::detail::type_list<Sigs...>,
               std::index_sequence<Positions...>) {
  const auto quit = [self](const caf::error& why) {
    if (why)
      self->quit(why);
  };
  return {
    forward_of<Positions>(self, Sigs{})...,
    [=](const net::frame& x) { quit(self->state.hear(x)); },
    [=](const link_ended& x) { quit(self->state.hear(x)); },
    [=](const call_is_due&) { self->state.on_due(); },
  };
}

} // namespace detail

/// Stands for a role at the other end of a channel. The proxy owns the channel
/// and closes it when it terminates. It is spawned like any role, and its
/// handle converts to a handle of the role.
template <class Role>
typename proxy_inside<Role>::behavior_type
proxy(typename proxy_inside<Role>::template stateful_pointer<proxy_state<Role>>
        self,
      std::shared_ptr<net::link> out, proxy_options options) {
  keep_last_words(self);
  out->listen(mail_to(self->address()));
  self->state.open(std::move(out), options);
  using list = typename Role::signatures;
  return detail::proxy_behavior<Role>(
    self, list{},
    std::make_index_sequence<caf::detail::tl_size<list>::value>{});
}

} // namespace troupe
