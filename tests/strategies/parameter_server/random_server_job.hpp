#pragma once

#include "troupe/strategies/parameter_server/shard_copy.hpp"
#include "troupe/strategies/parameter_server/step_decisions.hpp"
#include "troupe/strategies/parameter_server/worker.hpp"
#include "troupe/tests/strategies/random_job.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::parameter_server {

/// A job with parameter servers of random shape, under random faults. Messages
/// are lost, late, repeated and reordered, and links are cut for some time.
/// Servers, workers and chiefs die, or are excluded from the view while they
/// live and go on. Others come back in their place, at once or later, and
/// processes miss views. A chief can be replaced without a change of the views.
///
/// The job has up to three trainings, one after the other, of other replicas
/// and parts. A client that does not die begins each of them at all shards. It
/// does so when all steps of the one before are done, or earlier. Workers and
/// chiefs hear of it later, and those that are excluded never do.
///
/// Each worker is also a client, which sends commands: each adds a number to a
/// journal of the shard, or reads it.
///
/// A gradient is an integer, and the value of a part is the sum of those that
/// were applied. Beside it, each copy keeps which contributions they belong to,
/// in their order. The oracles:
///
///   exactly once   the value of each part is the sum of the gradients that
///                  were committed: each contribution once, with the gradient
///                  that the first primary that had it has applied. All copies
///                  in sync are equal
///   staleness      at each answer to a pull, and each read in place: the value
///                  has all contributions that the kind of consistency
///                  promises. A synchronous step has only gradients that were
///                  computed from its version
///   reads in place what a worker of the newest view reads in place has all
///                  contributions that were acknowledged before. All of it is
///                  of one version. A worker may read the memory of any
///                  primary, also of one that has died
///   no loss        a primary that serves has all that was acknowledged before.
///                  What was read at any time is a beginning of what was
///                  applied in the end, in this order
///   conservation   each contribution was applied, or a decision does not name
///                  it: then the shard lists it, or has told its sender so
///   one primary    one copy of each shard serves in each view, and a new one
///                  only when all workers have accepted its view
///   one decision   all shards take the same contributions to a step, apply
///                  them alike, and are at most one decision apart
///   trainings      an update has only contributions of the training in which
///                  it is made. All steps of a training that was completed are
///                  applied when the next one begins
///   commands       each takes effect at most once, and once if it was
///                  answered, also if it is sent to any copy at any time. All
///                  answers to a command are equal. A read has all commands
///                  that were answered before it was sent. All copies perform
///                  the commands in one order
///   progress       the job ends when there are no faults any more
class random_server_job : public random_job {
public:
  explicit random_server_job(std::uint64_t seed);

  std::string run() override;

private:
  /// Contributions to a part: replica and step.
  using contributions = std::set<std::pair<std::uint32_t, std::uint64_t>>;
  using order = std::vector<std::pair<std::uint32_t, std::uint64_t>>;
  /// What travels beside a push.
  struct gradient {
    std::uint32_t shard = 0;
    push_id id;
    std::int64_t number = 0;
    std::uint64_t training = 0;
  };
  /// A part at a copy of its shard.
  struct part_value {
    std::int64_t sum = 0; ///< Of the gradients that were applied.
    /// These gradients, by contribution.
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::int64_t> applied;
    /// The contributions in the order in which they were applied.
    order applied_order;
    contributions dropped{};
    friend bool operator==(const part_value&, const part_value&) = default;
  };
  using values = std::vector<part_value>; ///< By part.
  /// What travels beside a command.
  struct content {
    std::uint32_t shard = 0;
    command_id id;
  };
  /// The commands that a copy has performed, and the answers that it keeps.
  struct journal {
    std::vector<command_id> performed;
    std::map<command_id, std::size_t> answers;
    friend bool operator==(const journal&, const journal&) = default;
  };

  /// What is trained, and how.
  struct shape {
    std::uint32_t replicas = 1;
    std::uint64_t steps = 1;
    std::uint32_t backup_workers = 0;
    std::vector<std::vector<consistency>> rules{}; ///< By shard and part.
  };
  struct copy {
    std::unique_ptr<shard_copy> machine;
    std::uint64_t training = 0; ///< Of the parts.
    values parts{};
    journal commands{};
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
  /// A read of parameters in place. It takes some time.
  struct memory_read {
    read_in_place what;
    std::optional<pulled> before;   ///< Answer before the first element.
    std::vector<std::int64_t> sums; ///< By part: what was read first.
    int tries = 1;
  };
  struct open_command {
    command what;
    std::size_t answered_before = 0; ///< Commands, when it was sent first.
  };
  /// The commands of a client at one shard.
  struct client_of_shard {
    std::uint64_t next = 0, next_read = 0;
    /// By number: reads, and other commands.
    std::map<std::uint64_t, open_command> reads, open;
  };
  struct worker_process {
    bool is_alive = true, is_excluded = false;
    std::vector<shard_primary> views; ///< The last it has entered, by shard.
    std::uint64_t hosts_of = 0;       ///< View whose hosts it knows.
    std::uint64_t chief = 0;          ///< Of this view.
    std::uint64_t commands_left = 0;
    std::map<std::uint32_t, client_of_shard> commands; ///< By shard.
    std::unique_ptr<worker> machine;
    std::uint64_t training = 0;                ///< Of the machine.
    std::map<std::uint32_t, replica> replicas; ///< By id.
  };
  struct chief_process {
    bool is_alive = true, is_excluded = false;
    std::unique_ptr<step_decisions> machine;
    std::vector<shard_primary> views; ///< The last it has entered, by shard.
  };
  struct copies_of_shard {
    std::uint64_t term = 0, previous_term = 0, primary = 0;
    std::vector<std::uint64_t> backups;
  };

  void tick();
  std::string state_of(std::uint64_t process) const override;
  std::string state_of(std::uint32_t at_shard, const copy& one) const;
  std::string state_of(const worker_process& one) const;

  // -- trainings --------------------------------------------------------------

  shape draw_shape();
  void begin_training();
  void send_begins();
  void start_training();
  void start_training(std::uint64_t process, worker_process& one);
  void on_begin(std::uint32_t at_shard, copy& at, const training& begun);
  /// What the oracles are about.
  const shape& now() const { return shapes_.at(training_); }
  bool is_current(const copy& one) const;
  std::unique_ptr<step_decisions> new_chief(std::uint64_t process) const;

  // -- processes --------------------------------------------------------------

  void add_server();
  void add_worker();
  void add_chief();
  void enter_chief();
  void start_replica(std::uint64_t process, std::uint32_t id, bool is_adopted);
  void read(std::uint64_t process, std::uint32_t id);
  std::vector<std::uint32_t> parts_of(std::uint32_t at_shard,
                                      std::uint64_t training) const;
  void pull_from(std::uint64_t process, std::uint32_t id,
                 std::uint32_t at_shard);
  void begin_read_in_place(std::uint64_t process, std::uint32_t id,
                           std::uint32_t at_shard, int tries);
  void end_read_in_place(std::uint64_t process, const memory_read& read);
  void on_read(std::uint64_t process, std::uint32_t id);
  void perform(std::uint64_t process, std::uint32_t at_shard,
               const shard_reaction& effects);
  void perform(std::uint64_t process, const worker_reaction& effects);
  void perform(std::uint64_t process, const decision_reaction& effects);
  void report(std::uint64_t process, std::uint32_t id);
  void to_chief(std::uint64_t sender, std::uint64_t chief,
                std::string_view message,
                std::function<decision_reaction(step_decisions&)> call);
  void to_chiefs(std::uint64_t sender, std::string_view message,
                 const std::function<decision_reaction(step_decisions&)>& call);
  void on_push_done(std::uint64_t process, const push_done& done);
  void check_update(std::uint32_t at_shard, const update& made);
  void on_pulled(std::uint64_t process, const pull_done& done);
  void check_read(std::uint32_t at_shard, const pulled& read,
                  std::uint64_t step, const values& read_values);
  void check_order(std::uint32_t at_shard, const values& read_values);
  std::int64_t gradient_of(std::uint64_t process, std::uint64_t training,
                           std::uint32_t at_shard, const push_id& id) const;
  void apply_to(copy& at, std::uint32_t at_shard, const update& made);
  void commit(std::uint32_t at_shard, std::uint32_t part,
              const part_value& value);

  // -- commands ---------------------------------------------------------------

  void issue(std::uint64_t process);
  void send_command(std::uint64_t process, std::uint32_t at_shard,
                    command what);
  void apply_command_to(journal& at, std::uint32_t at_shard,
                        const apply_command& given);
  void commit(std::uint32_t at_shard, const journal& at);
  void on_answered(std::uint64_t process, std::uint32_t at_shard,
                   const command_id& id);
  void on_read_answered(std::uint64_t process, std::uint32_t at_shard,
                        const command_id& id,
                        const std::vector<command_id>& read);

  // -- views ------------------------------------------------------------------

  void inject();
  template <class Process>
  std::uint64_t choose(const std::map<std::uint64_t, Process>& all);
  template <class Process>
  void end(std::uint64_t process, Process& one, std::string_view dies,
           std::string_view is_excluded);
  void end_server();
  void end_worker();
  void end_chief();
  /// A process comes back after some time, as another one.
  void return_later(std::function<void()> add);
  bool can_spare_server(std::uint64_t process) const;
  void change_view();
  void enter_view(std::uint64_t process);
  void enter_hosts(std::uint64_t process, std::uint64_t view_id,
                   const std::map<std::uint32_t, std::uint64_t>& hosts);
  void check_serving(std::uint64_t process, std::uint32_t at_shard);
  void check_primary(std::uint64_t process, std::uint32_t at_shard);

  /// Number of decisions that a shard has applied. Empty: it has no synchronous
  /// parts.
  std::optional<std::uint64_t> decisions_of(std::uint32_t at_shard) const;
  bool is_done() const;
  bool all_backups_follow() const;
  bool has_other_decisions() const;
  bool chief_decides() const;
  void check_end();
  void check_part(std::uint32_t at_shard, std::uint32_t index,
                  const part_value& part);
  void check_commands(std::uint32_t at_shard);

  std::uint32_t shards_ = 1, copies_ = 1;
  shard_options limits_;
  std::uint64_t max_commands_ = 0;        ///< Of each client.
  std::map<std::uint64_t, shape> shapes_; ///< By training.
  /// The training that workers and chief begin with. Zero: none.
  std::uint64_t training_ = 0;
  std::uint64_t trainings_left_ = 0; ///< That have not begun.
  /// All steps were done when the next training began.
  bool is_completed_ = false;
  /// The shards that have not answered that the next training has begun.
  std::set<std::uint32_t> beginning_;
  std::uint64_t next_incarnation_ = 100;
  std::map<std::uint64_t, server> servers_;
  std::map<std::uint64_t, worker_process> workers_;
  std::map<std::uint64_t, chief_process> chiefs_;
  std::uint64_t chief_ = 0; ///< Of the newest view.

  std::uint64_t view_id_ = 0; ///< Counts the changes of views.
  /// Each shard counts its own views: view 1 of the job is this number and 1.
  std::vector<std::uint64_t> first_view_; ///< By shard.
  std::uint64_t view_of(std::uint32_t at_shard) const {
    return view_id_ + first_view_[at_shard];
  }
  std::vector<copies_of_shard> placed_; ///< By shard, in the newest view.
  std::map<std::uint32_t, std::uint64_t> hosts_; ///< Worker by replica.
  /// The workers of each view.
  std::map<std::uint64_t, std::vector<std::uint64_t>> workers_of_;
  std::map<std::uint64_t, std::uint64_t> chief_of_; ///< By view.
  /// The primary that has served, by view and shard.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint64_t> served_;
  /// By shard: the pushes that a primary has acknowledged; those that were
  /// acknowledged to their workers before their step was decided; and those
  /// whose workers were told that it was decided.
  std::map<std::uint32_t, std::set<push_id>> acknowledged_, accepted_, late_;
  /// The gradients that were committed, by shard and push.
  std::map<std::pair<std::uint32_t, push_id>, std::int64_t> committed_;
  /// Step of a pull of a replica that knows its step, by worker and number.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> pull_steps_;
  /// The longest order of contributions that was read, by shard and part.
  std::vector<std::vector<order>> read_;
  /// The highest step at which a replica that was moved went on, by replica.
  std::map<std::uint32_t, std::uint64_t> went_on_at_;
  /// What counts in each synchronous step, as a primary has applied it first.
  std::map<std::uint64_t, contributions> decided_;
  std::map<std::uint64_t, update_factors> decided_factors_; ///< By step.
  /// By shard: the commands that a primary has performed, in their order; those
  /// that were answered, in the order of their first answers; these answers.
  std::map<std::uint32_t, std::vector<command_id>> performed_, answered_;
  std::map<std::uint32_t, std::map<command_id, std::size_t>> answers_;
};

} // namespace troupe::parameter_server
