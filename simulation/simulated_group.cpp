#include "troupe/simulation/simulated_group.hpp"

#include "troupe/actors/core/fiber.hpp"
#include "troupe/simulation/simulated_wait.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

namespace troupe::simulation {

bool stepping_waiter::wait(std::unique_lock<std::mutex>& hold,
                           const std::function<bool()>& done,
                           std::chrono::milliseconds patience) {
  const auto till = in_.elapsed() + patience;
  while (!done()) {
    hold.unlock(); // actors that run now may lock it
    bool more = true;
    if (fiber::inside())
      fiber::park();
    else
      more = go_on();
    hold.lock();
    if (!more || hopeless_ || in_.elapsed() > till)
      return done();
  }
  return true;
}

void stepping_waiter::spawned(const party& who, const caf::actor& it) {
  in_.ends(it);
  if (who.what == party::role::replica)
    replicas_[who.id] = it.address();
}

bool stepping_waiter::go_on() {
  while (const auto who = faults_ ? faults_->victim() : std::nullopt)
    if (const auto it = caf::actor_cast<caf::actor>(replicas_[*who]))
      caf::anon_send_exit(it, caf::exit_reason::kill);
  while (const auto x = faults_ && net_ ? faults_->next_blow() : std::nullopt)
    if (x->what == faults::blow::kind::slow)
      net_->slow(x->who, x->times);
    else
      net_->cut(x->who, x->what == faults::blow::kind::cut
                          ? net::ending::dead
                          : net::ending::silent);
  return in_.next();
}

crew_place place_in(sim& in, const std::shared_ptr<stepping_waiter>& waits,
                    fault_dice* faults) {
  crew_place place{in.sys};
  place.on = threads::shared;
  place.waiting = waits;
  place.faults = {faults, [](fault_seam*) {}}; // the caller owns it
  place.by_mail = true;
  place.on_spawn = [waits](const party& who, const caf::actor& it) {
    waits->spawned(who, it);
  };
  return place;
}

std::unique_ptr<crew> make_crew(sim& in, const crew_options& options,
                                fault_dice* faults) {
  auto here = options;
  here.polling = std::chrono::microseconds{0}; // spinning moves no virtual time
  return troupe::make_crew(
    place_in(in, std::make_shared<stepping_waiter>(in, faults), faults), here);
}

} // namespace troupe::simulation
