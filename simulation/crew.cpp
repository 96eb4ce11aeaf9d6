#include "troupe/simulation/crew.hpp"

#include "troupe/actors/crew_place.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <utility>
#include <vector>

namespace troupe::simulation {

namespace {

/// Waits by letting the simulator go on, and sees to it that those die who are
/// to die.
class stepping_waiter final : public waiter {
public:
  stepping_waiter(sim& in, fault_dice* faults) : in_{in}, faults_{faults} {}

  bool wait(std::unique_lock<std::mutex>& hold,
            const std::function<bool()>& done,
            std::chrono::milliseconds patience) override {
    const auto till = in_.elapsed() + patience;
    while (!done()) {
      hold.unlock(); // whoever runs now may take it
      const bool more = go_on();
      hold.lock();
      if (!more || in_.elapsed() > till)
        return done();
    }
    return true;
  }

  void notify() override {} // `done` is asked after every message

  void spawned(const party& who, const caf::actor& it) {
    in_.ends(it);
    if (who.what == party::role::replica) {
      replicas_.resize(std::max<std::size_t>(replicas_.size(), who.id + 1));
      replicas_[who.id] = it.address();
    }
  }

private:
  bool go_on() {
    if (faults_)
      while (const auto who = faults_->victim())
        if (*who < replicas_.size())
          if (const auto it = caf::actor_cast<caf::actor>(replicas_[*who]))
            caf::anon_send_exit(it, caf::exit_reason::kill);
    return in_.next();
  }

  sim& in_;
  fault_dice* faults_;
  std::vector<caf::actor_addr> replicas_;
};

} // namespace

std::unique_ptr<crew> make_crew(sim& in, const crew_options& options,
                                fault_dice* faults) {
  const auto waits = std::make_shared<stepping_waiter>(in, faults);
  crew_place place{in.sys};
  place.on = threads::shared;
  place.waiting = waits;
  place.faults = {faults, [](fault_seam*) {}}; // the caller's
  place.by_mail = true;
  place.on_spawn = [waits](const party& who, const caf::actor& it) {
    waits->spawned(who, it);
  };
  auto here = options;
  here.polling = std::chrono::microseconds{0}; // this clock stands still
  return troupe::make_crew(place, here);
}

} // namespace troupe::simulation
