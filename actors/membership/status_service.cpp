#include "troupe/actors/membership/status_service.hpp"

#include "troupe/actors/control/chief.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/remoting/skeleton.hpp"

#include <caf/actor_cast.hpp>

namespace troupe {

namespace {

/// Maximum number of clients at once.
constexpr std::size_t most_guests = 64;
/// Timeout of a request to the chief.
constexpr std::chrono::milliseconds patience{1000};

struct reporter_state {
  struct guest {
    std::shared_ptr<net::connection> via;
    caf::actor door;
  };
  reporter_view of;
  caf::actor_addr chief;
  std::map<caf::actor_addr, guest> guests;

  ~reporter_state() {
    for (auto& [addr, x] : guests)
      x.via->close("the job has ended");
  }
};

using reporter_self = reporter_actor::stateful_pointer<reporter_state>;

member_state state_of(const hall::seat& x, bool gone) {
  if (x.left)
    return member_state::left;
  if (x.end)
    return x.end->first == net::ending::silent ? member_state::silent
                                               : member_state::lost;
  if (!x.wire)
    return member_state::absent;
  return gone ? member_state::seated : member_state::joining;
}

void add_members(const reporter_view& of, job_status& to) {
  const std::lock_guard hold{of.in->lock};
  to.job = of.job;
  std::vector<std::string> absent;
  for (std::size_t p = 0; p < of.names.size(); ++p) {
    member_status one{of.names[p], of.incarnation, 0,
                      of.in->go ? member_state::seated : member_state::joining};
    if (p > 0) {
      const auto& seat = of.in->seats[p];
      one.incarnation = seat.incarnation;
      one.state = state_of(seat, of.in->go);
      if (seat.wire)
        one.silence_ms =
          static_cast<std::uint64_t>(seat.wire->silence().count());
    }
    if (one.state == member_state::absent)
      absent.push_back(one.name);
    to.members.push_back(std::move(one));
  }
  if (to.waiting.empty() && !absent.empty())
    to.waiting = roster::listed(absent) + " did not join yet";
}

caf::result<job_status> answer(reporter_self self) {
  const auto chief = caf::actor_cast<caf::actor>(self->state.chief);
  if (!chief) {
    job_status x;
    add_members(self->state.of, x);
    return x;
  }
  auto promise = self->make_response_promise<job_status>();
  self->request(caf::actor_cast<chief_actor>(chief), patience, atom::status_v)
    .then(
      [self, promise](job_status& x) mutable {
        add_members(self->state.of, x);
        promise.deliver(x);
      },
      [self, promise](const caf::error&) mutable { // the chief has just ended
        job_status x;
        add_members(self->state.of, x);
        promise.deliver(x);
      });
  return promise;
}

void welcome(reporter_self self, const guest_ref& x) {
  auto& guests = self->state.guests;
  if (guests.size() >= most_guests)
    return x.it->close("too many status clients are connected");
  auto door = caf::actor_cast<caf::actor>(
    self->spawn(gateway<status_actor>, status_actor{self},
                x.it->open(desk_channel), gateway_options{}));
  self->monitor(door);
  guests.emplace(door.address(), reporter_state::guest{x.it, door});
}

reporter_actor::behavior_type reporter_role(reporter_self self,
                                            reporter_view of) {
  self->state.of = std::move(of);
  self->set_down_handler([self](const caf::down_msg& x) {
    const auto it = self->state.guests.find(x.source);
    if (it == self->state.guests.end())
      return;
    it->second.via->close("the status client is done");
    self->state.guests.erase(it);
  });
  return {
    [self](atom::status) { return answer(self); },
    [self](const guest_ref& x) { welcome(self, x); },
    [self](const caf::actor_addr& chief) { self->state.chief = chief; },
  };
}

} // namespace

reporter_actor spawn_reporter(caf::actor_system& in, reporter_view of) {
  return in.spawn(reporter_role, std::move(of));
}

} // namespace troupe
