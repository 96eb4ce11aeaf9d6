#pragma once

#include "troupe/strategies/fields.hpp"
#include "troupe/strategies/parameter_server/consistency.hpp"

#include <compare>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

// Messages between the workers, the chief and the shards of a job with
// parameter servers, and between the copies of a shard. Gradients and
// parameters travel beside them.

namespace troupe::parameter_server {

/// The tensors that travel beside a message. A state machine only keeps them.
struct payload {
  std::shared_ptr<const void> tensors; ///< Null: there are none.
  std::uint64_t bytes = 0;             ///< Size of the tensors.
  friend bool operator==(const payload&, const payload&) = default;
};

/// Identifies a contribution. It is applied once, however often it is sent.
struct push_id {
  std::uint32_t replica = 0;
  std::uint64_t step = 0; ///< Counted by the replica, from 0.
  std::uint32_t part = 0; ///< Index of the part in the training at its shard.
  auto fields() { return std::tie(replica, step, part); }
  friend auto operator<=>(const push_id&, const push_id&) = default;
};

/// How the gradient of a push, or the sum of those that a decision names, is
/// applied.
struct update_factors {
  bool has_learning_rate = false; ///< False: the optimizer's own rate applies.
  float learning_rate = 0;
  float scale = 1; ///< Factor of the gradient.
  /// Of a decision: the step counts for the optimizer, and changes no element.
  bool is_skipped = false;
  auto fields() {
    return std::tie(has_learning_rate, learning_rate, scale, is_skipped);
  }
  friend bool operator==(const update_factors&,
                         const update_factors&) = default;
};

/// A part that is trained, and when its contributions become updates.
struct trained_part {
  std::uint64_t part = 0; ///< Number of the part in the job.
  consistency rule;
  auto fields() { return std::tie(part, rule); }
  friend bool operator==(const trained_part&, const trained_part&) = default;
};

/// A training, such as one `fit`, names the parts that R replicas update at a
/// shard, and the consistency of each. Its clocks begin at step 0.
/// @cost 16 bytes at each copy for each replica of each part.
struct training {
  /// Counted by the coordinator, from 1; a later life of the coordinator goes
  /// on counting. A shard begins a training only if its number is higher than
  /// that of the current one.
  std::uint64_t number = 0;
  std::uint32_t replicas = 0;
  /// A push names a part by its index in this list.
  std::vector<trained_part> parts;
  auto fields() { return std::tie(number, replicas, parts); }
  friend bool operator==(const training&, const training&) = default;
};

/// Largest number of clocks of a training at a shard: parts times replicas.
inline constexpr std::uint64_t max_clocks = std::uint64_t{1} << 22;

// -- worker to primary --------------------------------------------------------

/// Contributes the gradient of a part, which travels beside it.
struct push {
  std::uint64_t view_id = 0; ///< View of the sender.
  push_id id;
  /// Version of the part from which the gradient was computed.
  std::uint64_t read_version = 0;
  std::uint64_t training = 0; ///< Number of the training.
  update_factors factors{};   ///< Unused by a synchronous part.
  auto fields() {
    return std::tie(view_id, id, read_version, training, factors);
  }
};

/// Asks for the parameters of some parts. A replica has one pull at each shard;
/// a new one takes the place of the one before.
struct pull {
  std::uint64_t view_id = 0; ///< View of the sender.
  std::uint64_t number = 0;  ///< Counted by the worker.
  std::uint32_t replica = 0;
  /// The step for which the replica reads. A replica that was moved to another
  /// process reads for step 0, which is answered at once, and goes on at the
  /// lowest `pulled::next_step` of all shards.
  std::uint64_t step = 0;
  std::vector<std::uint32_t> parts; ///< Ascending.
  std::uint64_t training = 0;       ///< Number of the training.
  auto fields() {
    return std::tie(view_id, number, replica, step, parts, training);
  }
};

/// The sender, with all its replicas, has entered the view. What it reads in
/// place under an older one does not count.
struct accepted {
  std::uint64_t view_id = 0;
  std::uint64_t worker = 0; ///< Incarnation of the sender.
  auto fields() { return std::tie(view_id, worker); }
};

// -- client to primary --------------------------------------------------------

/// Identifies a command. It takes effect once, however often it is sent.
struct command_id {
  std::uint64_t client = 0; ///< Random number that the client has chosen.
  /// Counted by the client for this shard, from 0. Reads are counted by
  /// themselves.
  std::uint64_t number = 0;
  auto fields() { return std::tie(client, number); }
  friend auto operator<=>(const command_id&, const command_id&) = default;
};

/// Asks a shard to do something that the host understands. Its content travels
/// beside it.
struct command {
  command_id id;
  /// The client needs no answer to its commands with a lower number any more.
  /// At most `id.number`. Zero for a read.
  std::uint64_t answered_below = 0;
  /// The command changes nothing, and is performed as often as it is sent.
  bool is_read = false;
  /// The training that begins in place of the current one. At most one, and
  /// none in a read.
  std::vector<training> begins{};
  auto fields() { return std::tie(id, answered_below, is_read, begins); }
};

/// Why a command was not performed.
enum class command_refusal : std::uint8_t {
  not_serving = 0, ///< The copy is not a primary that serves.
  busy = 1,        ///< The log is full. The command can be sent again.
  /// The client has said that it needs no answer, or the shard has forgotten
  /// the client.
  forgotten = 2,
  /// The training of the command is impossible, or a later one has begun.
  impossible_training = 3,
};

// -- worker to chief ----------------------------------------------------------

/// All shards have acknowledged the contributions of a replica to all steps
/// below a number. The worker sends it again, unless it cannot be lost without
/// the worker. It holds in all views, because no acknowledged contribution is
/// lost.
struct contributed {
  std::uint32_t replica = 0;
  std::uint64_t next_step = 0; ///< The first other step of the replica.
  std::uint64_t training = 0;  ///< Number of the training.
  auto fields() { return std::tie(replica, next_step, training); }
};

// -- chief to primary ---------------------------------------------------------

/// Asks for the last decision. A process sends it to all shards when it becomes
/// the chief. It is a record of the log: behind it the shard takes no decision
/// of an earlier chief.
struct decision_query {
  std::uint64_t view_id = 0;  ///< View of the sender.
  std::uint64_t training = 0; ///< Number of the training.
  /// Number of the sender, above 0. The coordinator counts the chiefs of a
  /// training, so a later chief has a higher number.
  std::uint64_t chief = 0;
  auto fields() { return std::tie(view_id, training, chief); }
};

/// The contributions that count in a step of the parts that are synchronous.
/// All shards have acknowledged them. The chief sends it when all shards have
/// answered the decision on the step before.
struct decision {
  std::uint64_t view_id = 0;               ///< View of the sender.
  std::uint64_t step = 0;                  ///< Counted by the chief, from 0.
  std::vector<std::uint32_t> contributors; ///< Replicas, ascending.
  std::uint64_t training = 0;              ///< Number of the training.
  std::uint64_t chief = 0;                 ///< Number of the sender.
  update_factors factors{};
  auto fields() {
    return std::tie(view_id, step, contributors, training, chief, factors);
  }
};

// -- primary to worker and chief ----------------------------------------------

/// What became of a push. The numbers are a wire format: append, never reuse.
enum class push_result : std::uint8_t {
  accepted = 0, ///< All copies of the shard that are in sync have it.
  repeated = 1, ///< They had it before.
  /// Its step was decided before. It counts if the decision names it.
  decided = 2,
  stale_view = 3,
  unknown_replica = 4,
  unknown_part = 5,
  /// More than `max_steps_ahead` after the first missing step of the replica.
  future_step = 6,
  /// The push has no effect, because a later training has begun.
  training_ended = 7,
  /// The host of the shard cannot apply the gradient to the part.
  unfit_gradient = 8,
};

/// Answer to `push`.
struct pushed {
  std::uint64_t view_id = 0; ///< View of the shard.
  push_id id;
  push_result result = push_result::accepted;
  std::uint64_t training = 0; ///< Training of the push.
  auto fields() { return std::tie(view_id, id, result, training); }
};

/// Answer to `pull`. The parameters travel beside it.
struct pulled {
  std::uint64_t view_id = 0; ///< View of the shard.
  std::uint64_t number = 0;  ///< Number of the pull.
  std::uint32_t replica = 0; ///< Replica of the pull.
  /// First step to which a contribution of the replica is missing, of all parts
  /// of the training at this shard. The largest number: it has no such part.
  std::uint64_t next_step = 0;
  std::vector<std::uint64_t> versions; ///< Of each part that was asked for.
  std::uint64_t training = 0;          ///< Training of the pull.
  auto fields() {
    return std::tie(view_id, number, replica, next_step, versions, training);
  }
};

/// Answer to `decision`: all copies of the shard have it, unless a later chief
/// than its sender has asked for the last decision.
struct decided {
  std::uint64_t view_id = 0; ///< View of the shard.
  std::uint64_t step = 0;
  std::uint64_t training = 0; ///< Training of the decision.
  std::uint64_t chief = 0;    ///< Sender of the decision.
  /// Number of the last chief whose query is in the log.
  std::uint64_t last_chief = 0;
  auto fields() { return std::tie(view_id, step, training, chief, last_chief); }
};

/// Answer to `decision_query`.
struct last_decision {
  std::uint64_t view_id = 0; ///< View of the shard.
  /// The last decision that all copies of the shard have. At most one.
  std::vector<decision> decided;
  std::uint64_t training = 0; ///< Number of the training.
  std::uint64_t chief = 0;    ///< Sender of the query.
  /// Number of the last chief whose query is in the log. If it is above
  /// `chief`, the query had no effect.
  std::uint64_t last_chief = 0;
  auto fields() {
    return std::tie(view_id, decided, training, chief, last_chief);
  }
};

/// The shard answers requests of this view from now on.
struct serving {
  std::uint64_t view_id = 0;
  auto fields() { return std::tie(view_id); }
};

// -- between the copies of a shard --------------------------------------------

/// Primary to backup: the next entry of the log. It holds a push, a decision, a
/// command or a query. The gradient of the push, or the content of the command,
/// travels beside it.
struct record {
  std::uint64_t view_id = 0;     ///< View of the primary.
  std::uint64_t sequence = 0;    ///< Counted by the primary, from 1.
  std::vector<push> pushed;      ///< At most one.
  std::vector<decision> decided; ///< At most one.
  /// First record in the log of the primary. All backups have stored those
  /// before it.
  std::uint64_t log_begin = 0;
  std::vector<command> commands{};       ///< At most one.
  std::vector<decision_query> queries{}; ///< At most one.
  auto fields() {
    return std::tie(view_id, sequence, pushed, decided, log_begin, commands,
                    queries);
  }
};

/// Backup to primary: the sender has entered the view. It has all records up to
/// a number, or it has no state and needs a snapshot.
struct stored {
  std::uint64_t view_id = 0; ///< View of the backup.
  std::uint64_t backup = 0;  ///< Incarnation of the sender.
  bool has_state = false;
  std::uint64_t sequence = 0;
  bool is_in_sync = false; ///< The sender has received `in_sync`.
  auto fields() {
    return std::tie(view_id, backup, has_state, sequence, is_in_sync);
  }
};

/// Primary to backup: the receiver answers with `stored`. If it followed the
/// primary before this one, it keeps its state if the log continues it.
struct inquire {
  std::uint64_t view_id = 0;   ///< View of the primary.
  std::uint64_t log_begin = 0; ///< First record in the log of the primary.
  /// Last record of the primary when its term began.
  std::uint64_t term_begin = 0;
  auto fields() { return std::tie(view_id, log_begin, term_begin); }
};

/// Primary to backup: from now on the primary acknowledges nothing that the
/// backup has not stored. So the backup can become the primary.
struct in_sync {
  std::uint64_t view_id = 0; ///< View of the primary.
  auto fields() { return std::tie(view_id); }
};

/// Which contributions of a replica to a part a shard has received.
struct replica_clock {
  std::uint64_t next_step = 0; ///< All steps below it were received.
  /// Bit i: step next_step + 1 + i was received.
  std::uint64_t later_steps = 0;
  auto fields() { return std::tie(next_step, later_steps); }
  friend bool operator==(const replica_clock&, const replica_clock&) = default;
};

/// What a shard knows about a part beside its parameters and slots.
struct part_state {
  std::uint64_t version = 0;         ///< Updates that were applied.
  std::vector<replica_clock> clocks; ///< By replica.
  /// Contributions that wait for the decision on their step. Their gradients
  /// travel beside the message, in this order.
  std::vector<push> waiting;
  auto fields() { return std::tie(version, clocks, waiting); }
};

/// What a shard remembers about a client.
struct client_session {
  std::uint64_t client = 0;
  /// The client needs no answer to its commands with a lower number.
  std::uint64_t answered_below = 0;
  std::uint64_t last_record = 0; ///< Sequence of its last command.
  /// Numbers of its other commands that have taken effect, ascending.
  std::vector<std::uint64_t> done;
  auto fields() { return std::tie(client, answered_below, last_record, done); }
  friend bool operator==(const client_session&,
                         const client_session&) = default;
};

/// Primary to backup: the state after all records up to `sequence`. What the
/// host keeps (parameters, slots, answers to commands) travels beside it.
struct snapshot {
  std::uint64_t view_id = 0; ///< View of the primary.
  std::uint64_t sequence = 0;
  std::vector<part_state> parts;         ///< Of `current`, in its order.
  std::vector<decision> decided;         ///< The last one. At most one.
  std::vector<client_session> clients{}; ///< By client, ascending.
  training current{};                    ///< The training of the parts.
  /// Number of the last chief of the training whose query was applied.
  std::uint64_t chief = 0;
  auto fields() {
    return std::tie(view_id, sequence, parts, decided, clients, current, chief);
  }
};

} // namespace troupe::parameter_server
