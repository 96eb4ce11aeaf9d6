#include "troupe/actors/remoting/proxy.hpp"

#include "troupe/actors/core/exception_handler.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/message_view.hpp>
#include <caf/stateful_actor.hpp>

#include <algorithm>

namespace troupe {

namespace {

// -- protocol -----------------------------------------------------------------

/// Tells a proxy that a request may have timed out, or that the proxy should
/// try again to send its backlog.
struct request_timer {
  auto fields() { return std::tie(); }
};

// -- state --------------------------------------------------------------------

struct proxy_state : proxy_core {
  static inline const char* name = "proxy";

  explicit proxy_state(caf::event_based_actor* self) : self{self} {}

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

  /// Sends a message of the role's interface over the channel.
  caf::result<caf::message> forward(const caf::type_erased_tuple& message) {
    const auto it =
      std::ranges::find_if(signatures, [&message](const proxy_signature& x) {
        return x.matches(message);
      });
    if (it == signatures.end())
      return caf::sec::unexpected_message;
    const auto position = static_cast<std::size_t>(it - signatures.begin());
    return it->is_oneway ? forward_oneway(*it, position, message)
                         : forward_request(*it, position, message);
  }

  caf::event_based_actor* self;
  std::span<const proxy_signature> signatures; ///< Interface of the role.

private:
  void write(wire::message_writer& out, const proxy_signature& signature,
             std::size_t position, std::uint32_t timeout_ms,
             const caf::type_erased_tuple& message) const {
    out(static_cast<std::uint16_t>(position), signature.fingerprint,
        timeout_ms);
    signature.write(out, message);
  }

  caf::result<caf::message>
  forward_oneway(const proxy_signature& signature, std::size_t position,
                 const caf::type_erased_tuple& message) {
    caf::error problem;
    if (!signature.write) {
      problem = nonserializable_error(signature.nonserializable_type);
    } else {
      wire::message_writer out{uses_lane()};
      write(out, signature, position, 0, message);
      problem =
        send_oneway(std::move(out), signature.priority, self->clock().now());
      schedule_timer();
    }
    if (!problem)
      return caf::message{};
    const auto message_name = signature.name();
    const auto why = wire::to_wire(problem, self->system());
    if (must_deliver())
      self->quit(loss_of(message_name, why));
    else
      log_loss(message_name, why, self->clock().now());
    return problem;
  }

  caf::result<caf::message>
  forward_request(const proxy_signature& signature, std::size_t position,
                  const caf::type_erased_tuple& message) {
    if (!signature.write)
      return nonserializable_error(signature.nonserializable_type);
    wire::message_writer out{uses_lane()};
    write(out, signature, position, request_timeout_ms(), message);
    auto promise = self->make_response_promise();
    send_request(std::move(out), signature.priority, self->clock().now(),
                 promise, signature.read);
    schedule_timer();
    return promise;
  }
};

// -- behavior -----------------------------------------------------------------

caf::behavior proxy(caf::stateful_actor<proxy_state>* self,
                    std::span<const proxy_signature> signatures,
                    std::shared_ptr<net::channel> channel,
                    const proxy_options& options) {
  install_exception_handler(self);
  channel->set_listener(deliver_to_mailbox(self->address()));
  if (options.lane)
    options.lane->set_listener(deliver_tensors_to_mailbox(self->address()));
  self->state.signatures = signatures;
  self->state.open(std::move(channel), options);
  self->set_default_handler(
    [self](caf::scheduled_actor*, caf::message_view& x) {
      return self->state.forward(x.content());
    });
  const auto quit = [self](const caf::error& why) {
    if (why)
      self->quit(why);
  };
  return {
    [=](net::frame& x) { quit(self->state.on_frame(x)); },
    [=](arrived_tensors& x) { quit(self->state.on_tensors(x)); },
    [=](const lane_ended& x) { quit(self->state.on_lane_ended(x)); },
    [=](const channel_closed& x) { quit(self->state.on_channel_closed(x)); },
    [=](const request_timer&) { self->state.on_timer(); },
  };
}

} // namespace

caf::actor detail::spawn_proxy(caf::actor_system& sys,
                               std::span<const proxy_signature> signatures,
                               std::shared_ptr<net::channel> channel,
                               const proxy_options& options) {
  return sys.spawn(proxy, signatures, std::move(channel), options);
}

} // namespace troupe
