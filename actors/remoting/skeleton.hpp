#pragma once

#include "troupe/actors/remoting/skeleton_core.hpp"

#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

// -- protocol -----------------------------------------------------------------

/// A skeleton. It receives the frames of its channel, the tensors of its
/// channel that pass over the lane, and the ends of channel and lane.
using skeleton_actor =
  caf::typed_actor<caf::reacts_to<net::frame>, caf::reacts_to<arrived_tensors>,
                   caf::reacts_to<lane_ended>, caf::reacts_to<channel_closed>>;

// -- signatures ---------------------------------------------------------------

struct skeleton_state;

/// How a skeleton delivers one message of a role's interface.
struct skeleton_signature {
  bool is_oneway; ///< The message has no response.
  /// Name of a type in the message that cannot be sent to another process.
  /// Empty: the message can be sent.
  std::string_view nonserializable_type;
  /// Fingerprint of the schema. Zero if the message cannot be sent.
  std::uint32_t fingerprint;
  /// Reads the values of the message. Null: the message cannot be sent.
  caf::message (*read)(wire::message_reader& in);
  /// Sends a request to the role, and sends back the response. Null: the
  /// message has no response.
  void (*request)(skeleton_state& state, std::uint64_t tag,
                  std::chrono::milliseconds timeout, caf::message&& message);
};

// -- state --------------------------------------------------------------------

struct skeleton_state : skeleton_core {
  static inline const char* name = "skeleton";

  explicit skeleton_state(skeleton_actor::pointer self) : self{self} {}

  /// Decodes the messages that are complete and sends them to the role.
  /// @returns the error with which the skeleton must terminate. Empty: it
  ///          continues.
  caf::error handle_messages();

  skeleton_actor::pointer self;
  caf::actor target;                              ///< The role.
  std::span<const skeleton_signature> signatures; ///< Interface of the role.

private:
  std::string handle(received_message& message);
  void dispatch(const received_message& received,
                const wire::message_head& head, caf::message&& message);
  void request_receipt();
};

namespace detail {

template <class... Os>
void request_from_role(skeleton_state& state, std::uint64_t tag,
                       std::chrono::milliseconds timeout,
                       caf::message&& message) {
  state.self->request(state.target, timeout, std::move(message))
    .then(
      [&state, tag](const Os&... ys) {
        wire::message_writer out{state.uses_lane()};
        (wire::put(out, ys), ...);
        state.respond(tag, std::move(out), wire::priority_of<Os...>);
      },
      [&state, tag](const caf::error& why) {
        state.fail_request(tag, wire::to_wire(why, state.self->system()));
      });
}

template <class... Is, class... Os>
skeleton_signature skeleton_signature_of(
  caf::typed_mpi<caf::detail::type_list<Is...>, caf::output_tuple<Os...>> sig) {
  using message = wire::signature<decltype(sig)>;
  skeleton_signature made{.is_oneway = message::is_oneway,
                          .nonserializable_type =
                            message::nonserializable_type(),
                          .fingerprint = 0,
                          .read = nullptr,
                          .request = nullptr};
  if constexpr (message::nonserializable_type().empty()) {
    made.fingerprint = message::fingerprint();
    made.read = wire::read_message<Is...>;
    if constexpr (!message::is_oneway)
      made.request = request_from_role<Os...>;
  }
  return made;
}

template <class... Sigs>
std::vector<skeleton_signature>
skeleton_signatures_of(caf::detail::type_list<Sigs...>) {
  return {skeleton_signature_of(Sigs{})...};
}

/// Spawns a skeleton of a role with this interface.
/// @pre the signatures are never destroyed.
skeleton_actor spawn_skeleton(caf::actor_system& sys,
                              std::span<const skeleton_signature> signatures,
                              caf::actor target,
                              std::shared_ptr<net::channel> channel,
                              const skeleton_options& options);

} // namespace detail

// -- spawning -----------------------------------------------------------------

/// Spawns a skeleton. It delivers the messages of the proxy at the other end of
/// a channel to a role, and sends back the responses. The skeleton owns the
/// channel. The channel does not keep the skeleton alive, so the code that
/// spawns the skeleton must keep its handle.
template <class Role>
skeleton_actor spawn_skeleton(caf::actor_system& sys, const Role& target,
                              std::shared_ptr<net::channel> channel,
                              const skeleton_options& options = {}) {
  static const auto signatures =
    detail::skeleton_signatures_of(typename Role::signatures{});
  return detail::spawn_skeleton(sys, signatures,
                                caf::actor_cast<caf::actor>(target),
                                std::move(channel), options);
}

} // namespace troupe
