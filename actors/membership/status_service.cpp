#include "troupe/actors/membership/status_service.hpp"

#include "troupe/actors/control/chief.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/remoting/skeleton.hpp"

#include <caf/actor_cast.hpp>

namespace troupe {

namespace {

/// Maximum number of simultaneous clients.
constexpr std::size_t max_clients = 64;
/// Timeout of a request to the chief.
constexpr std::chrono::milliseconds request_timeout{1000};

struct status_service_state {
  struct client {
    std::shared_ptr<net::connection> connection;
    caf::actor skeleton;
  };
  status_view view;
  caf::actor_addr chief;
  std::map<caf::actor_addr, client> clients;

  ~status_service_state() {
    for (auto& [addr, x] : clients)
      x.connection->close("the job has ended");
  }
};

using status_service_pointer =
  status_service_actor::stateful_pointer<status_service_state>;

member_state state_of(const peer_table::peer_entry& peer, bool begun) {
  if (peer.has_left)
    return member_state::left;
  if (peer.closed)
    return peer.closed->first == net::close_reason::timed_out
             ? member_state::unreachable
             : member_state::lost;
  if (!peer.connection)
    return member_state::absent;
  return begun ? member_state::active : member_state::joining;
}

void add_members(const status_view& view, job_status& status) {
  const std::lock_guard hold{view.peers->lock};
  status.job = view.job;
  failure_report absent{.kind = failure_kind::job_not_joined,
                        .code = ec::stalled};
  for (std::uint32_t p = 0; p < view.names.size(); ++p) {
    member_status member{view.names[p], view.incarnation, 0,
                         view.peers->started ? member_state::active
                                             : member_state::joining};
    if (p > 0) {
      const auto& peer = view.peers->entries[p];
      member.incarnation = peer.incarnation;
      member.state = state_of(peer, view.peers->started);
      if (peer.connection)
        member.since_contact_ms =
          static_cast<std::uint64_t>(peer.connection->silence().count());
    }
    if (member.state == member_state::absent)
      absent.processes.push_back(p);
    status.members.push_back(std::move(member));
  }
  if (status.stall_reason.empty() && !absent.processes.empty())
    status.stall_reason = describe(absent, {view.names, placement{}});
}

caf::result<job_status> handle_status(status_service_pointer self) {
  const auto chief = caf::actor_cast<caf::actor>(self->state.chief);
  if (!chief) {
    job_status x;
    add_members(self->state.view, x);
    return x;
  }
  auto promise = self->make_response_promise<job_status>();
  self
    ->request(caf::actor_cast<chief_actor>(chief), request_timeout,
              atom::status_v)
    .then(
      [self, promise](job_status& x) mutable {
        add_members(self->state.view, x);
        promise.deliver(x);
      },
      [self, promise](const caf::error&) mutable { // the chief has just ended
        job_status x;
        add_members(self->state.view, x);
        promise.deliver(x);
      });
  return promise;
}

void accept_client(status_service_pointer self, const client_ref& ref) {
  auto& clients = self->state.clients;
  if (clients.size() >= max_clients)
    return ref.connection->close("too many status clients are connected");
  auto client_skeleton = caf::actor_cast<caf::actor>(
    self->spawn(skeleton<status_actor>, status_actor{self},
                ref.connection->open(root_channel), skeleton_options{}));
  self->monitor(client_skeleton);
  clients.emplace(
    client_skeleton.address(),
    status_service_state::client{ref.connection, client_skeleton});
}

status_service_actor::behavior_type
status_service_role(status_service_pointer self, status_view view) {
  self->state.view = std::move(view);
  self->set_down_handler([self](const caf::down_msg& x) {
    const auto it = self->state.clients.find(x.source);
    if (it == self->state.clients.end())
      return;
    it->second.connection->close("the status client is done");
    self->state.clients.erase(it);
  });
  return {
    [self](atom::status) { return handle_status(self); },
    [self](const client_ref& x) { accept_client(self, x); },
    [self](const caf::actor_addr& chief) { self->state.chief = chief; },
  };
}

} // namespace

status_service_actor spawn_status_service(caf::actor_system& system,
                                          status_view view) {
  return system.spawn(status_service_role, std::move(view));
}

} // namespace troupe
