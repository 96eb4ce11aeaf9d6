#include "troupe/actors/membership/membership_actor.hpp"

#include "troupe/actors/core/close_code.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/group/world.hpp"
#include "troupe/actors/membership/rejection_text.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/session/service_router.hpp"
#include "troupe/strategies/membership/leader.hpp"
#include "troupe/strategies/membership/participant.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <optional>

namespace troupe {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// Delay before a participant dials the leader again. It dials again if the
/// leader's process does not serve the job yet.
constexpr auto retry_delay = 20ms;
/// Maximum delay before the leader logs which tasks are missing.
constexpr milliseconds max_report_delay{5000};
/// Time beyond the start timeout in which the processes have to open their
/// lanes.
constexpr auto lane_timeout = 5s;

/// Passes what arrives on a membership channel to the actor.
class channel_listener final : public net::channel_listener {
public:
  channel_listener(const membership_actor& owner, std::uint32_t task,
                   std::uint64_t incarnation)
    : owner_{owner.address()}, task_{task}, incarnation_{incarnation} {}

  void on_frame(net::frame&& frame) override {
    tell(membership_event::received{
      task_, incarnation_, std::make_shared<net::frame>(std::move(frame))});
  }
  void on_closed(net::close_reason cause, const std::string& reason) override {
    tell(membership_event::closed{task_, incarnation_, cause, reason});
  }

private:
  template <class Event>
  void tell(Event&& event) {
    if (const auto owner = caf::actor_cast<caf::actor>(owner_))
      caf::anon_send(owner, membership_event{std::forward<Event>(event)});
  }

  caf::actor_addr owner_; ///< Weak: the actor owns the channel.
  std::uint32_t task_;
  std::uint64_t incarnation_;
};

// -- state --------------------------------------------------------------------

struct membership_state {
  static inline const char* name = "membership";
  using pointer = membership_actor::stateful_pointer<membership_state>;

  /// The membership channel to another process.
  struct peer {
    std::shared_ptr<net::connection> connection;
    std::shared_ptr<net::channel> channel;
    std::uint64_t incarnation = 0;
    std::uint64_t last_tag = 0; ///< Number of the last message sent.
  };

  ~membership_state() {
    for (auto& [task, x] : peers)
      x.connection->close("the job has ended");
  }

  // -- events -----------------------------------------------------------------

  void start() {
    if (options.self.task == 0) {
      leader.emplace(task_count(), options.self);
      arm_watchdog(options.start_timeout);
      self->delayed_send(self,
                         std::min(max_report_delay, options.start_timeout / 4),
                         atom::missing_v);
      perform(leader->begin());
    } else {
      participant.emplace(task_count(), options.self);
      arm_watchdog(options.start_timeout + lane_timeout);
      dial();
    }
  }

  void on(const membership_event::accepted& x) {
    auto effects = leader->on(x.request);
    if (auto* no = std::get_if<membership::rejected>(&effects.front()))
      return reject(*x.connection, no->why);
    add_peer(x.request.task, x.request.incarnation, x.connection);
    perform(std::move(effects));
  }

  void on(const membership_event::dialed& x) {
    auto& attempt = *x.result;
    if (attempt.connection)
      if (auto* wire = std::get_if<std::shared_ptr<net::connection>>(
            &*attempt.connection)) {
        add_peer(0, attempt.peer.incarnation, std::move(*wire));
        arm_watchdog(remaining() + options.start_timeout
                     + options.shutdown_timeout);
        return perform(participant->on_connected(attempt.peer.incarnation));
      }
    const bool retry = attempt.rejected && is_retryable(attempt.payload)
                       && remaining() > retry_delay;
    if (attempt.rejected)
      last_rejection = attempt.reason;
    if (retry)
      self->delayed_send(self, retry_delay, atom::next_v);
    else if (!last_rejection.empty()) // explains more than a timeout
      perform(participant->on_rejected(last_rejection));
    else
      perform(participant->on_unreachable(ec::stalled, attempt.reason));
  }

  void on(const membership_event::received& x) {
    auto* const sender = find(x.task, x.incarnation);
    if (!sender)
      return;
    sender->channel->consumed(x.frame->priority);
    membership::message message;
    if (const auto fault = net::decode(x.frame->payload, message.kind,
                                       message.text, message.view))
      return sender->connection->close("a membership message is malformed: "
                                       + to_string(*fault));
    message.text = net::printable(message.text, net::max_sentence_bytes);
    perform(leader ? leader->on(x.task, x.incarnation, message)
                   : participant->on(x.incarnation, message));
  }

  void on(const membership_event::closed& x) {
    if (!find(x.task, x.incarnation))
      return;
    options.peers->update([&] {
      options.peers->entries[x.task].closed = {x.cause, x.reason};
    });
    peers.erase(x.task);
    const auto code = close_code(x.cause);
    perform(leader ? leader->on_lost(x.task, x.incarnation, code, x.reason)
                   : participant->on_lost(x.incarnation, code, x.reason));
  }

  void on(const membership_event::lanes_open&) {
    if (participant)
      arm_watchdog(std::max(remaining(), options.start_timeout / 2)
                   + options.start_timeout + lane_timeout);
    perform(leader ? leader->on_ready() : participant->on_ready());
  }

  void on(const membership_event::aborted& x) {
    perform(leader ? leader->on_abort(x.code, x.reason)
                   : participant->on_abort(x.code, x.reason));
  }

  void on(const membership_event::leave&) {
    perform(leader ? leader->leave() : participant->leave());
  }

  void on_watchdog(std::uint64_t number) {
    if (number == watchdog)
      perform(leader ? leader->on_timeout() : participant->on_timeout());
  }

  void dial() {
    options.dial_leader(
      std::max(remaining(), 1ms),
      [owner = membership_actor{self}](net::endpoint::dial_result&& x) {
        caf::anon_send(
          owner,
          membership_event{membership_event::dialed{
            std::make_shared<net::endpoint::dial_result>(std::move(x))}});
      });
  }

  void log_missing() {
    const auto tasks = leader->missing();
    if (leader->is_gathering() && !tasks.empty() && options.log)
      options.log(net::severity::warning,
                  describe({.kind = failure_kind::start_not_joined,
                            .code = ec::stalled,
                            .processes = tasks,
                            .cause = rejected_text()},
                           options.processes));
  }

  // -- effects ----------------------------------------------------------------

  void perform(membership::reaction&& effects) {
    for (auto& x : effects)
      std::visit([this](auto& effect) { perform(effect); }, x);
  }

  void perform(membership::admitted&) {}
  void perform(membership::rejected&) {} // see `accepted`
  void perform(membership::send& x) { send(x.task, x.message); }
  void perform(membership::view_changed& x) {
    if (leader && x.view.view_id == 1)
      arm_watchdog(remaining() + lane_timeout);
    options.peers->update([&] { options.peers->view = std::move(x.view); });
  }
  void perform(membership::started&) {
    options.peers->update([this] { options.peers->started = true; });
  }
  void perform(membership::failed& x) {
    auto& why = x.why;
    why.timeout_ms = static_cast<std::uint64_t>(options.start_timeout.count());
    if (why.kind == failure_kind::start_not_joined)
      why.cause = rejected_text();
    const auto text =
      net::printable(describe(why, options.processes), net::max_sentence_bytes);
    for (const auto task : x.notify)
      send(task, {membership::message_kind::abort, text, {}});
    options.peers->update([&] { options.peers->failed = std::move(why); });
  }
  void perform(membership::left& x) {
    options.peers->update(
      [&] { options.peers->entries[x.task].has_left = true; });
  }
  void perform(membership::ended&) {
    options.peers->update([this] { options.peers->may_close = true; });
  }

  /// Tells a process that it cannot join, and ends its connection.
  void reject(net::connection& connection, const membership::rejection& why) {
    const auto reason = net::printable(describe(why, options.processes.names),
                                       net::max_sentence_bytes);
    post(*connection.open(membership_channel), 1,
         {membership::message_kind::reject, reason, {}});
    connection.close(reason);
    if (why.task < task_count())
      rejections[why.task] = reason;
    if (options.log)
      options.log(net::severity::warning,
                  own_name() + " rejected a process: " + reason);
  }

  // -- peers ------------------------------------------------------------------

  void add_peer(std::uint32_t task, std::uint64_t incarnation,
                std::shared_ptr<net::connection> connection) {
    auto& one = peers[task];
    one = {connection, connection->open(membership_channel), incarnation, 0};
    options.peers->update([&] {
      options.peers->entries[task] = {
        std::move(connection), incarnation, false, {}};
    });
    one.channel->set_listener(
      std::make_shared<channel_listener>(self, task, incarnation));
  }

  peer* find(std::uint32_t task, std::uint64_t incarnation) {
    const auto it = peers.find(task);
    return it != peers.end() && it->second.incarnation == incarnation
             ? &it->second
             : nullptr;
  }

  void send(std::uint32_t task, const membership::message& message) {
    const auto it = peers.find(task);
    if (it == peers.end())
      return; // its connection has ended, which the state machine hears
    auto& [connection, channel, incarnation, last_tag] = it->second;
    if (!post(*channel, ++last_tag, message))
      connection->close("a membership message could not be sent");
  }

  static bool post(net::channel& channel, std::uint64_t tag,
                   const membership::message& x) {
    return channel.post({net::frame_kind::oneway, net::priority::control, 0,
                         tag, net::encode(x.kind, x.text, x.view)});
  }

  // -- helpers ----------------------------------------------------------------

  std::uint32_t task_count() const {
    return static_cast<std::uint32_t>(options.processes.names.size());
  }
  const std::string& own_name() const {
    return options.processes.names[options.self.task];
  }

  /// Returns a text about the processes and connections that were rejected.
  std::string rejected_text() const {
    if (!leader)
      return {};
    std::string out;
    for (const auto task : leader->missing())
      if (const auto it = rejections.find(task); it != rejections.end())
        out += "; rejected: " + it->second;
    return out.empty() && options.describe_rejected_peers
             ? options.describe_rejected_peers()
             : out;
  }

  /// Returns the rest of the start timeout.
  milliseconds remaining() const {
    return std::max(std::chrono::duration_cast<milliseconds>(
                      begun + options.start_timeout - now()),
                    0ms);
  }
  caf::timespan now() const { return self->clock().now().time_since_epoch(); }

  /// Replaces the timeout of the current phase.
  void arm_watchdog(milliseconds delay) {
    self->delayed_send(self, delay, atom::watchdog_v, ++watchdog);
  }

  pointer self = nullptr;
  membership_options options;
  caf::timespan begun{};
  std::uint64_t watchdog = 0; ///< Number of the last timeout.
  /// One of the two exists.
  std::optional<membership::leader> leader;
  std::optional<membership::participant> participant;
  std::map<std::uint32_t, peer> peers; ///< By task.
  /// By task: why the leader last rejected a process that asked for it.
  std::map<std::uint32_t, std::string> rejections;
  std::string last_rejection; ///< Of this process, by the leader. Empty: none.
};

membership_actor::behavior_type membership_role(membership_state::pointer self,
                                                membership_options options) {
  auto& state = self->state;
  state.self = self;
  state.options = std::move(options);
  state.begun = state.now();
  state.start();
  return {
    [&state](const membership_event& x) {
      std::visit([&state](const auto& event) { state.on(event); }, x.what);
    },
    [&state](atom::watchdog, std::uint64_t number) {
      state.on_watchdog(number);
    },
    [&state](atom::next) { state.dial(); },
    [&state](atom::missing) { state.log_missing(); },
  };
}

} // namespace

membership_actor spawn_membership(caf::actor_system& system,
                                  const membership_options& options) {
  const auto out = system.spawn(membership_role, options);
  release_caf_logger();
  return out;
}

} // namespace troupe
