#pragma once

#include "troupe/actors/reducer.hpp"

#include <map>

namespace troupe {

/// The roles that a chief owns.
struct cast_ref {
  std::vector<replica_actor> replicas;
  std::vector<reducer_actor> reducers;
};

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::cast_ref)

namespace troupe {

// -- protocol -----------------------------------------------------------------

/// CHIEF: owner of the job.
using chief_actor = owner_actor::extend<
  // These are the roles; from now on they are watched, and seated.
  caf::reacts_to<cast_ref>,
  // Steps [first, first + count), and who hears of them.
  caf::reacts_to<atom::run, std::uint64_t, std::uint64_t, step_ref,
                 listener_ref>,
  // The listener is through with the commits of this run before this step.
  caf::reacts_to<atom::heard, std::uint64_t, std::uint64_t>,
  // Grants no more steps.
  caf::reacts_to<atom::stop>>;

/// The chief's notes to itself.
using chief_inside = chief_actor::extend<
  // The guard of this number rings.
  caf::reacts_to<atom::late, std::uint64_t>>;

// -- state --------------------------------------------------------------------

struct chief_state {
  static inline const char* name = "chief";

  explicit chief_state(chief_inside::pointer self) : self{self} {}
  ~chief_state();

  void take(const cast_ref& x);
  void run(std::uint64_t first, std::uint64_t steps, const step_ref& fn,
           const listener_ref& to);
  void on_heard(std::uint64_t of_run, std::uint64_t next);
  void on_lost(const caf::down_msg& x);
  void on_late(std::uint64_t guard);
  void perform(commit::reaction what);
  void watch();
  std::chrono::milliseconds grace() const; ///< For answers to a probe.
  template <class Message>
  void tell_replicas(subject what, std::uint64_t step, const Message& x);

  chief_inside::pointer self;
  std::chrono::milliseconds patience{};
  outbox out;
  std::unique_ptr<commit::ledger> book;
  cast_ref cast;
  std::map<caf::actor_addr, party> ids;
  step_ref work;
  listener_ref listener;   ///< While work runs.
  std::uint64_t guard = 0; ///< Number of the guard that counts.
  bool armed = false;      ///< Whether that one is yet to ring.
  bool probed = false;     ///< Whether it waits for answers to a probe.
  std::uint64_t moves = 0; ///< Of the book, when it last moved ...
  caf::actor_clock::time_point moved{}; ///< ... which was then.
};

// -- behavior -----------------------------------------------------------------

/// Owns a job's roles: says who works on which step, commits the steps in
/// order, and names who is missing when nothing moves.
/// @param patience Longest that a step may take, actor clock.
chief_inside::behavior_type
chief(chief_inside::stateful_pointer<chief_state> self, std::uint32_t replicas,
      std::chrono::milliseconds patience, outbox out);

} // namespace troupe
