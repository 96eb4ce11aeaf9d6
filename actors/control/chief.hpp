#pragma once

#include "troupe/actors/collectives/message_sender.hpp"
#include "troupe/actors/control/status_survey.hpp"
#include "troupe/actors/protocol/chief_actor.hpp"
#include "troupe/actors/protocol/group_options.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <map>

namespace troupe {

struct chief_options {
  std::uint32_t replicas = 1;
  std::uint64_t lease = default_step_window;
  /// Longest that a step may take, or the wait for other processes, by the
  /// actors' clock.
  std::chrono::milliseconds patience{60'000};
  commit::places where; ///< Which process holds what.
};

// -- protocol -----------------------------------------------------------------

/// The chief's notes to itself.
using chief_inside = chief_actor::extend<
  // The guard of this number rings.
  caf::reacts_to<atom::late, std::uint64_t>,
  // A run may have waited for its callers for long enough.
  caf::reacts_to<atom::absent>,
  // A replica elsewhere ended, and its process did not.
  caf::reacts_to<atom::ended, std::uint32_t, std::string>,
  // Commits have waited for more of their kind for long enough.
  caf::reacts_to<atom::flush>,
  // Who was asked what he does has had the time to say so.
  caf::reacts_to<atom::status, std::uint64_t>>;

// -- state --------------------------------------------------------------------

struct chief_state {
  static inline const char* name = "chief";

  explicit chief_state(chief_inside::pointer self) : self{self} {}
  ~chief_state();

  void open(const chief_options& x, outbox by);
  void take(const cast_ref& x);
  void join(const muster::join& x);
  std::chrono::milliseconds join_timeout_of(const muster::join& x) const;
  void on_heard(const run_heard& x);
  void on_lost(const caf::down_msg& x);
  void on_process_lost(std::uint32_t process, const caf::error& why);
  void on_late(std::uint64_t guard);
  void on_absent();
  void on_batch(const owner_batch& x);
  void on_blame(const commit::blame& x);
  void perform(muster::reaction what);
  void perform(commit::reaction what);
  void watch();
  std::chrono::milliseconds grace() const; ///< For answers to a probe.
  bool is_here(std::uint32_t replica) const;
  template <class Message>
  void tell_replicas(subject what, std::uint64_t step, const Message& x);

  void probe(const commit::probe& x);
  void probe_reducers(const commit::probe& x);

  // What others hear of how it does; chief_survey.cpp.
  caf::result<job_status> status();
  void on_surveyed(std::uint64_t number);
  job_status report() const;
  std::string why_not_done() const;

  // What callers hear; chief_news.cpp.
  void tell_commit(commit_record&& x);
  void tell_end(std::uint64_t next);
  void tell_failure(std::uint32_t process, std::uint64_t of_run, ec code,
                    const std::string& why);
  void flush();
  template <class Message>
  void tell(std::uint32_t process, const Message& x);

  chief_inside::pointer self;
  chief_options options;
  outbox out;
  std::unique_ptr<commit::ledger> book;
  std::unique_ptr<muster::machine> gathering;
  cast_ref cast;
  std::map<caf::actor_addr, party> ids;
  step_ref work;
  std::uint64_t run = 0; ///< The number of what is under way; 0: nothing is.
  std::vector<std::uint64_t> heard;  ///< By process.
  std::vector<commit_record> unsent; ///< For the callers elsewhere.
  bool flushing = false;
  job_pace pace;
  chief_survey survey;
  std::uint64_t guarded = 0; ///< The run whose absent ones are waited for.
  std::uint64_t guard = 0;   ///< Number of the guard that counts.
  bool armed = false;        ///< Whether that one is yet to ring.
  bool probed = false;       ///< Whether it waits for answers to a probe.
  std::uint64_t moves = 0;   ///< Of the book, when it last moved ...
  caf::actor_clock::time_point moved{}; ///< ... which was then.

  /// How long the absent ones are waited for, and until when.
  std::chrono::milliseconds join_timeout{0};
  caf::actor_clock::time_point join_deadline{};
  bool join_alarm = false; ///< An `absent` is under way.
};

ec code_of(commit::cause x);

// -- behavior -----------------------------------------------------------------

/// Owns a job's roles: says who works on which step, commits the steps in
/// order, and names who is missing when nothing moves.
chief_inside::behavior_type
chief(chief_inside::stateful_pointer<chief_state> self, chief_options options,
      outbox out);

} // namespace troupe
