#include "troupe/actors/membership/status_service.hpp"

#include "troupe/actors/group/chief_status_source.hpp"
#include "troupe/actors/remoting/skeleton.hpp"

#include <caf/actor_cast.hpp>

namespace troupe {

namespace {

/// Maximum number of simultaneous clients.
constexpr std::size_t max_clients = 64;
/// Timeout of a request to the chief.
constexpr std::chrono::milliseconds status_timeout{1000};

struct status_service_state {
  struct client {
    std::shared_ptr<net::connection> connection;
    caf::actor skeleton;
  };
  job_overview overview;
  caf::actor_addr run_service; ///< The chief or the local agent.
  std::map<caf::actor_addr, client> clients;

  ~status_service_state() {
    for (auto& [addr, x] : clients)
      x.connection->close("the job has ended");
  }

  /// Names of the members of the current view; the first one has the chief.
  named_processes members() const {
    const std::lock_guard hold{overview.peers->lock};
    named_processes out;
    out.names.clear();
    for (const auto& x : overview.peers->view.members)
      out.names.push_back(overview.names.at(x.task));
    return out;
  }
};

using status_service_pointer =
  status_service_actor::stateful_pointer<status_service_state>;

caf::result<job_status> handle_status(status_service_pointer self) {
  const auto service = caf::actor_cast<caf::actor>(self->state.run_service);
  if (!service) {
    job_status x;
    add_overview(self->state.overview, x);
    return x;
  }
  auto promise = self->make_response_promise<job_status>();
  self
    ->request(caf::actor_cast<status_actor>(service), status_timeout,
              atom::status_v)
    .then(
      [self, promise](job_status& x) mutable {
        add_overview(self->state.overview, x);
        promise.deliver(x);
      },
      [self, promise](const caf::error& error) mutable {
        // The chief has just ended, or its process does not answer.
        job_status x;
        if (error == caf::sec::request_timeout || error == ec::stalled)
          x = status_without_chief(self->state.members(), status_timeout);
        add_overview(self->state.overview, x);
        promise.deliver(x);
      });
  return promise;
}

void accept_client(status_service_pointer self, const client_ref& ref) {
  auto& clients = self->state.clients;
  if (clients.size() >= max_clients)
    return ref.connection->close("too many status clients are connected");
  auto channel = ref.connection->open(root_channel);
  auto client_skeleton =
    ref.connection->peer().purpose == "vacancies"
      ? caf::actor_cast<caf::actor>(
        spawn_skeleton(self->system(), vacancy_actor{self}, std::move(channel)))
      : caf::actor_cast<caf::actor>(
        spawn_skeleton(self->system(), status_actor{self}, std::move(channel)));
  self->monitor(client_skeleton);
  clients.emplace(
    client_skeleton.address(),
    status_service_state::client{ref.connection, client_skeleton});
}

status_service_actor::behavior_type
status_service_role(status_service_pointer self, job_overview overview) {
  self->state.overview = std::move(overview);
  self->set_down_handler([self](const caf::down_msg& x) {
    const auto it = self->state.clients.find(x.source);
    if (it == self->state.clients.end())
      return;
    it->second.connection->close("the status client is done");
    self->state.clients.erase(it);
  });
  return {
    [self](atom::status) { return handle_status(self); },
    [self](atom::vacant) { return vacancies_of(self->state.overview); },
    [self](const client_ref& x) { accept_client(self, x); },
    [self](const caf::actor_addr& x) { self->state.run_service = x; },
  };
}

} // namespace

status_service_actor spawn_status_service(caf::actor_system& system,
                                          job_overview overview) {
  return system.spawn(status_service_role, std::move(overview));
}

} // namespace troupe
