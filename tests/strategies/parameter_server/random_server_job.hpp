#pragma once

#include "troupe/strategies/parameter_server/shard_copy.hpp"
#include "troupe/strategies/parameter_server/step_decisions.hpp"
#include "troupe/strategies/parameter_server/worker.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

// A job with parameter servers in virtual time. Messages are lost, delayed,
// repeated and reordered; servers, workers and chiefs die, and others are
// excluded from the view while they live and go on. A value of a part is the
// set of the contributions that were applied, so that nothing can be lost or
// counted twice unseen.

namespace troupe::parameter_server {

/// A job of random shape under random faults.
class random_server_job {
public:
  explicit random_server_job(std::uint64_t seed);

  /// @returns what is wrong. Empty: nothing.
  std::string run();

  std::uint64_t deaths() const { return deaths_; }
  std::uint64_t exclusions() const { return exclusions_; }
  std::uint64_t promotions() const { return promotions_; }
  std::uint64_t repeated_pushes() const { return repeated_; }
  std::uint64_t stale_answers() const { return stale_; }
  std::uint64_t dropped_contributions() const { return dropped_; }
  std::uint64_t adoptions() const { return adoptions_; }
  /// Backups that have kept their state under a new primary.
  std::uint64_t kept_states() const { return kept_; }
  std::uint64_t successions() const { return successions_; }
  /// Chiefs that were replaced when some shards lacked their last decision.
  std::uint64_t unfinished_decisions() const { return unfinished_; }

private:
  /// Contributions to a part: replica and step.
  using contributions = std::set<std::pair<std::uint32_t, std::uint64_t>>;
  using values = std::vector<contributions>; ///< By part.

  struct copy {
    std::unique_ptr<shard_copy> machine;
    values applied, dropped;
    std::uint64_t term = 0; ///< The last one in which it has shown a state.
  };
  struct server {
    bool is_alive = true, is_excluded = false;
    std::vector<copy> copies; ///< By shard.
  };
  struct replica {
    std::uint64_t step = 0;
    bool is_adopted = false;           ///< It does not know its step yet.
    std::uint64_t lowest_next = ~0ull; ///< Of all shards that have answered.
    std::set<std::uint32_t> reading;   ///< Shards that have not answered.
    std::map<std::uint32_t, std::vector<std::uint64_t>> versions; ///< By shard.
    std::uint64_t contributed =
      0; ///< All parts of the steps below it are done.
    std::map<std::uint64_t, std::size_t> parts_done; ///< By step.
  };
  struct worker_process {
    bool is_alive = true, is_excluded = false;
    std::unique_ptr<worker> machine;
    std::map<std::uint32_t, replica> replicas; ///< By id.
  };
  struct chief_process {
    bool is_alive = true, is_excluded = false;
    std::unique_ptr<step_decisions> machine;
  };
  struct copies_of_shard {
    std::uint64_t term = 0, previous_term = 0, primary = 0;
    std::vector<std::uint64_t> backups;
  };

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool chance(std::uint64_t percent) { return below(100) < percent; }
  void fail(const std::string& what);

  // -- time and network -------------------------------------------------------

  void at(std::uint64_t delay, std::function<void()> action);
  /// Delivers a message some time, or never, or twice.
  void deliver(std::function<void()> action);
  void run_until(std::uint64_t end, const std::function<bool()>& done);
  void tick();

  // -- processes --------------------------------------------------------------

  void add_server();
  void add_worker();
  void add_chief();
  void start_replica(std::uint64_t process, std::uint32_t id, bool is_adopted);
  void read(std::uint64_t process, std::uint32_t id);
  void on_read(std::uint64_t process, std::uint32_t id);
  void perform(std::uint64_t process, std::uint32_t at_shard,
               const shard_reaction& effects);
  void perform(std::uint64_t process, const worker_reaction& effects);
  void perform(const decision_reaction& effects);
  /// Delivers a message to the chief of a view.
  void to_chief(std::uint64_t view_id,
                std::function<decision_reaction(step_decisions&)> call);
  void on_push_done(std::uint64_t process, const push_done& done);
  void check_update(std::uint32_t at_shard, const update& made);
  void on_pulled(std::uint64_t process, const pull_done& done,
                 const values& read_values);
  void check_read(const pull_done& done, const values& read_values);

  // -- views ------------------------------------------------------------------

  void inject();
  bool can_spare_server(std::uint64_t process) const;
  void change_view();
  void enter_view(std::uint64_t process);
  void check_serving(std::uint64_t process, std::uint32_t at_shard);

  /// Number of decisions that a shard has applied. Empty: it has no synchronous
  /// parts.
  std::optional<std::uint64_t> decisions_of(std::uint32_t at_shard) const;
  bool is_done() const;
  bool all_backups_follow() const;
  void check_end();

  std::mt19937_64 random_;
  std::uint64_t now_ = 0, order_ = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::function<void()>>
    events_;
  std::string problem_;
  bool has_faults_ = true;
  std::uint64_t loss_percent_ = 0, max_delay_ = 10;

  std::uint32_t shards_ = 1, replicas_ = 1, copies_ = 1;
  std::uint64_t steps_ = 1;
  std::uint32_t backup_workers_ = 0;
  shard_options limits_;
  std::vector<std::vector<consistency>> rules_; ///< By shard and part.
  std::uint64_t next_incarnation_ = 100;
  std::map<std::uint64_t, server> servers_;
  std::map<std::uint64_t, worker_process> workers_;
  std::map<std::uint64_t, chief_process> chiefs_;
  std::uint64_t chief_ = 0; ///< Of the newest view.

  std::uint64_t view_id_ = 0;
  std::vector<copies_of_shard> placed_; ///< By shard, in the newest view.
  std::map<std::uint32_t, std::uint64_t> hosts_; ///< Worker by replica.
  /// The workers of each view, and the last view that each worker has entered.
  std::map<std::uint64_t, std::vector<std::uint64_t>> workers_of_;
  std::map<std::uint64_t, std::uint64_t> chief_of_; ///< By view.
  std::map<std::uint64_t, std::uint64_t> entered_;
  /// The primary that has served, by view and shard.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint64_t> served_;
  /// All pushes that were acknowledged, and those that were acknowledged before
  /// their step was decided, by shard.
  std::map<std::uint32_t, std::set<push_id>> acknowledged_, accepted_;
  /// What counts in each synchronous step, as a primary has applied it first.
  std::map<std::uint64_t, contributions> decided_;
  std::size_t all_parts_ = 0;

  std::uint64_t deaths_ = 0, exclusions_ = 0, promotions_ = 0, repeated_ = 0,
                stale_ = 0, dropped_ = 0, adoptions_ = 0, successions_ = 0,
                unfinished_ = 0, kept_ = 0;
};

} // namespace troupe::parameter_server
