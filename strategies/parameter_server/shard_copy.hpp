#pragma once

#include "troupe/strategies/parameter_server/client_sessions.hpp"
#include "troupe/strategies/parameter_server/part_contributions.hpp"
#include "troupe/strategies/parameter_server/protocol_error.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

/// A shard owns parts of the parameters: variables, or ranges of their rows.
/// Replicas pull the parts before a step, and push their gradients after it.
/// The state machine is one copy of a shard: the primary, which serves, or a
/// backup on another process.
///
///   who      a primary and K - 1 backups for each shard, W workers, which host
///            R replicas, the chief, clients
///   messages worker to primary: pull, push, accepted
///            client to primary: command
///            chief to primary: decision, decision_query
///            primary to worker: pulled, pushed, serving
///            primary to chief: decided, last_decision
///            primary to backup: record, snapshot, in_sync, inquire
///            backup to primary: stored
///   start    with a view, which names the copies of the shard and the workers.
///            A primary that was a backup before serves when all workers have
///            accepted the view. Until then it takes no request
///   on push  of a new contribution: append it to the log, and send the record
///            to the backups. When all backups that have a state have it:
///            add it to those of its part, apply the update if it makes one,
///            and answer. So what a replica reads, and what was acknowledged,
///            survives the loss of the primary
///   on pull  answer when the replica may read all parts, with parameters that
///            contain all updates that were applied by then. A worker on the
///            host of the primary can read them in place, without a message.
///            That counts if their versions have not changed meanwhile, and if
///            after it the primary serves in the view of the worker, which has
///            entered no newer one. A new primary waits until all workers have
///            accepted its view. So no worker reads an old primary in place
///            after the new one serves, also if the old one cannot be reached,
///            or has died and left its memory
///   on decision  as push, for the synchronous parts
///   on command  append it to the log, as a push. When all backups that have a
///            state have it: the host performs it, and answers. All copies
///            perform all commands but reads. A read is answered by the
///            primary, in its place in the log. So a primary that was replaced
///            answers no read either. No view is needed
///   on command with a training  the same. At its place in the log the training
///            begins in place of the current one: its parts get clocks that
///            begin at step 0, and contributions that wait for a decision are
///            dropped. Messages of an ended training have no effect: the answer
///            to a push is training_ended; pulls and decisions are ignored
///   on decision_query  append it to the log, as a push. When all backups that
///            have a state have it: answer with the last decision. Behind the
///            query is no decision of an earlier chief
///   on record  the next one: add it to its part, apply, answer stored
///   on view  a backup that becomes the primary goes on with all records that
///            it has, and asks its backups which ones they have (inquire). One
///            that followed the same primary, and has no record that the new
///            one lacks, gets the records that it lacks. Any other one gets a
///            snapshot and the records after it. When a backup has a state, the
///            primary waits for it too. It is in sync when it also has all that
///            was acknowledged before; the primary says so. A copy that the
///            view does not name drops its state
///   on timeout  send again the records that a backup has not stored, and
///            inquire to one that has not answered in this view. A snapshot is
///            large, and may take many intervals: it is sent again after 8 of
///            them, then after 16, and so on
///   end      with the job
///   cost     push: one message each way, and one each way for each backup.
///            A gradient is kept until all backups have stored its record.
///            Their number and size have a limit; pushes beyond it are ignored,
///            and have to be sent again
///   order    contributions are applied in the order of the log, in all copies
///   faults   another view -> answered with stale_view; between copies ignored.
///            So a primary that was replaced can acknowledge nothing
///            a push that was received before, or to a step that is decided ->
///            answered so, and has no effect
///            a command that has taken effect -> answered as the first time,
///            and has no effect. The shard remembers a client's commands from
///            the first that the client has no answer to, and forgets the
///            client that was silent longest when there are too many
///            a command with an impossible training, or an older one than the
///            current -> refused
///            a command to a copy that does not serve -> refused
///            a command of a forgotten client -> refused in its place in the
///            log, because a primary that was replaced can lack the client
///            a push of an unknown replica or part, or too far ahead ->
///            answered so
///            a query or a decision of an earlier chief than the last one that
///            has asked -> answered with the number of that one, no effect
///            a decision on contributions that the primary lacks -> ignored.
///            The chief has heard of them from a worker that has entered a
///            newer view, in which another primary has them
///            a pull of an unknown replica or part, a decision with impossible
///            contributors, another decision on the last step, a decision of a
///            chief that has not asked, an impossible record or snapshot ->
///            protocol_error
namespace troupe::parameter_server {

/// The copies of a shard, and the workers, in a view. Processes are named by
/// their incarnations.
struct shard_view {
  std::uint64_t view_id = 0;
  /// View in which the primary became the primary.
  std::uint64_t term = 0;
  /// Term of the primary before it. Zero: there was none.
  std::uint64_t previous_term = 0;
  std::uint64_t primary = 0;
  std::vector<std::uint64_t> backups; ///< Ascending.
  std::vector<std::uint64_t> workers; ///< Ascending.
};

/// Limits of a shard. When a push exceeds one, the primary ignores it until the
/// backups have stored other records. Then it can be sent again. A command is
/// refused.
struct shard_options {
  /// Records that some backup has not stored. At least 1.
  std::size_t max_log_records = 4096;
  /// Bytes of their gradients and contents. A larger one is taken alone.
  std::uint64_t max_log_bytes = std::uint64_t{1} << 30;
  client_limits clients{};
};

/// How much of the state of a shard a copy has. The next primary is a copy with
/// the id and the term of the view that is changed, and in sync; of these the
/// one with the highest sequence. If there is none, acknowledged updates
/// may be lost.
struct copy_position {
  std::uint64_t view_id = 0;  ///< The last view that it has entered.
  std::uint64_t term = 0;     ///< Term of the primary that it has followed.
  std::uint64_t sequence = 0; ///< Last record that it has applied.
  bool is_in_sync = false;    ///< It has all updates that were acknowledged.
};

// -- effects ------------------------------------------------------------------

/// Applies an update to a part.
struct apply {
  parameter_server::update update;
};
/// Answers a push of a replica of the current view.
struct answer_push {
  std::uint64_t worker = 0; ///< Sender of the push.
  parameter_server::pushed pushed;
};
/// Answers a pull with the parameters of the parts, as they are now.
struct answer_pull {
  std::uint64_t worker = 0; ///< Sender of the pull.
  std::vector<std::uint32_t> parts;
  parameter_server::pulled pulled;
};
/// Answers a decision of the chief.
struct answer_decision {
  parameter_server::decided decided;
};
/// Answers a query of the chief.
struct answer_decision_query {
  parameter_server::last_decision last_decision;
};
/// Performs a command, and keeps its answer. First forgets the answers to
/// the client's commands below `answered_below`.
struct apply_command {
  parameter_server::command command;
  payload content;
};
/// Forgets all answers to the commands of a client.
struct forget_client {
  std::uint64_t client = 0;
};
/// Answers a command with the answer that the host has kept.
struct answer_command {
  command_id id;
};
/// Performs a read, and answers it.
struct answer_read {
  command_id id;
  payload content;
};
/// A training begins in place of the one before, whose gradients that wait are
/// dropped.
struct begin_training {
  parameter_server::training training;
};
/// Answers a command that is not performed.
struct refuse_command {
  command_id id;
  bool is_read = false;
  command_refusal why{};
};
/// Sends a record to a backup.
struct send_record {
  std::uint64_t backup = 0; ///< Receiver.
  parameter_server::record record;
  payload gradient; ///< Or the content of the command.
};
/// Sends a snapshot to a backup, with the parameters, the slots and the answers
/// to commands as they are now.
struct send_snapshot {
  std::uint64_t backup = 0; ///< Receiver.
  parameter_server::snapshot snapshot;
  std::vector<payload> gradients; ///< Of all contributions that wait.
};
/// Drops the parameters, slots and answers: this copy has no state any more.
struct drop_state {};
/// Takes the parameters, slots and answers that came with a snapshot.
struct install_snapshot {};
/// Sends `stored` to the primary.
struct send_stored {
  std::uint64_t primary = 0; ///< Receiver.
  parameter_server::stored stored;
};
/// Sends `inquire` to a backup.
struct send_inquire {
  std::uint64_t backup = 0; ///< Receiver.
  parameter_server::inquire inquire;
};
/// Sends `in_sync` to a backup.
struct send_in_sync {
  std::uint64_t backup = 0; ///< Receiver.
  parameter_server::in_sync in_sync;
};
/// Sends `serving` to workers.
struct send_serving {
  std::vector<std::uint64_t> workers; ///< Receivers.
  parameter_server::serving serving;
};

using shard_effect = std::variant<
  apply, answer_push, answer_pull, answer_decision, answer_decision_query,
  apply_command, forget_client, begin_training, answer_command, answer_read,
  refuse_command, send_record, send_snapshot, drop_state, install_snapshot,
  send_inquire, send_stored, send_in_sync, send_serving, protocol_error>;
/// Effects; the host performs them in this order.
using shard_reaction = std::vector<shard_effect>;

/// True if a shard can begin this training: its parts ascend, each step of a
/// synchronous part needs a contribution, and it has at most `max_replicas`
/// replicas and `max_clocks` clocks.
bool is_possible(const training& x);

class shard_copy {
public:
  /// @param self incarnation of the process of this copy.
  /// @param first the training with which all copies of the shard begin.
  shard_copy(std::uint64_t self, const training& first,
             const shard_options& options = {});

  /// A view has taken effect. No effect if it is not newer.
  shard_reaction on_view(const shard_view& next);

  // -- the primary ------------------------------------------------------------

  /// @param worker incarnation of the sender.
  shard_reaction on(std::uint64_t worker, const push& received,
                    const payload& gradient);
  shard_reaction on(std::uint64_t worker, const pull& received);
  /// Answers a replica that reads the parameters in place, before and after it
  /// reads them (`worker::counts`). Its worker computes this answer from what
  /// the copy publishes in its memory: the view in which it serves, the number
  /// of its training, and the versions and clocks of its parts.
  /// @returns nullopt: the read does not count.
  std::optional<pulled> answer_in_place(const pull& wanted) const;
  shard_reaction on(const accepted& received);
  shard_reaction on(const decision& received);
  shard_reaction on(const decision_query& received);
  shard_reaction on(const command& received, const payload& content);
  shard_reaction on(const stored& received);
  /// An interval has passed in which a backup can answer.
  shard_reaction on_timeout();

  // -- a backup ---------------------------------------------------------------

  shard_reaction on(const record& received, const payload& gradient);
  shard_reaction on(const inquire& received);
  shard_reaction on(const in_sync& received);
  /// @param gradients of all contributions that wait, by part.
  shard_reaction on(const snapshot& received,
                    const std::vector<payload>& gradients);

  // -- queries ----------------------------------------------------------------

  bool is_primary() const { return role_ == role::primary; }
  /// True if this copy answers requests.
  bool serves() const { return is_primary() && awaited_workers_.empty(); }
  std::uint64_t view_id() const { return view_.view_id; }
  /// True if a push, a pull, a decision or a query waits, and is answered
  /// later. The copy has ignored it otherwise, unless it has answered.
  bool awaits(const push_id& id) const { return pending_pushes_.contains(id); }
  bool awaits(std::uint64_t worker, const pull& wanted) const {
    const auto found = pulls_.find(wanted.replica);
    return found != pulls_.end() && found->second.worker == worker
           && found->second.wanted.number == wanted.number;
  }
  bool awaits_decision(std::uint64_t training, std::uint64_t step) const {
    return pending_decisions_.contains({training, step});
  }
  bool awaits_query(std::uint64_t training, std::uint64_t chief) const {
    return pending_query_ == std::pair{training, chief};
  }
  /// True if this copy puts the push into the log, unless the log is full.
  bool takes(const push& given) const;
  const training& current() const { return training_; }
  const part_contributions& contributions(std::uint32_t part) const {
    return parts_[part];
  }
  std::uint32_t parts() const {
    return static_cast<std::uint32_t>(parts_.size());
  }
  /// Records, and bytes of their gradients, that some backup has not stored.
  std::size_t log_records() const { return log_.size(); }
  std::uint64_t log_bytes() const { return log_bytes_; }
  copy_position position() const {
    return {view_.view_id, view_.term, applied_, is_primary() || is_in_sync_};
  }

private:
  enum class role { none, primary, backup };
  /// What the primary knows about a backup.
  struct follower {
    /// It has all records up to this one, or needs a snapshot that does.
    std::uint64_t stored = 0;
    /// It has a state, so no record is applied that it has not stored.
    bool is_awaited = false;
    /// Intervals from the time that the snapshot was sent in this view until it
    /// is sent again. Zero: it was not sent, because the backup has not said
    /// that it has entered the view.
    std::uint32_t snapshot_intervals = 0;
    std::uint32_t intervals_left = 0; ///< Of them.
    /// Last record that was acknowledged before the primary waited for this
    /// backup. It is in sync when it has stored that record too.
    std::uint64_t in_sync_from = 0;
    bool has_answered = false;        ///< In this view; it has a state then.
    bool knows_it_is_in_sync = false; ///< It has answered `in_sync`.
  };
  struct entry {
    parameter_server::record record;
    payload gradient;
    std::uint64_t worker = 0; ///< Sender of the push.
  };
  struct waiting_pull {
    std::uint64_t worker = 0;
    pull wanted;
  };

  void reset(shard_reaction& out);
  void clear();
  void begin(const training& next);
  bool is_superseded(const command& given) const;
  void lead(shard_reaction& out);
  void append(shard_reaction& out, entry&& added);
  void apply_stored(shard_reaction& out);
  void perform(shard_reaction& out, const record& next,
               const payload& gradient);
  void perform(shard_reaction& out, const command& next,
               const payload& content);
  void answer(shard_reaction& out, const entry& one);
  void answer_pulls(shard_reaction& out);
  std::uint64_t last_chief() const;
  push_result result_of(const record& next) const;
  bool can_follow(const record& next) const;
  bool is_known(const pull& wanted) const;
  bool can_read(const pull& wanted) const;
  pulled answer_to(const pull& wanted) const;
  void send_log(shard_reaction& out, std::uint64_t backup,
                const follower& to) const;
  void tell_if_in_sync(shard_reaction& out, std::uint64_t backup,
                       const follower& to) const;
  void follow_anew(shard_reaction& out, std::uint64_t backup, follower& to);
  bool has_room_for(std::uint64_t bytes) const;
  void trim_log();
  void trim_log(std::uint64_t begin);
  /// True if the records of the primary continue the state of this backup.
  bool follows() const { return has_state_ && state_term_ == view_.term; }
  /// First record of the log.
  std::uint64_t log_begin() const {
    return log_.empty() ? last_ + 1 : log_.front().record.sequence;
  }
  inquire question() const { return {view_.view_id, log_begin(), term_begin_}; }
  pushed answer_to(const push& given, push_result result) const {
    return {view_.view_id, given.id, result, given.training};
  }
  answer_decision answer_to(const decision& given) const {
    return {
      {view_.view_id, given.step, given.training, given.chief, last_chief()}};
  }
  answer_decision_query answer_to(const decision_query& given) const {
    return {
      {view_.view_id, decided_, given.training, given.chief, last_chief()}};
  }
  stored own_position() const {
    return {view_.view_id, self_, follows(), applied_, is_in_sync_};
  }

  const std::uint64_t self_;
  const training first_;
  const shard_options options_;
  shard_view view_;
  role role_ = role::none;
  training training_;
  std::vector<part_contributions> parts_; ///< Of the training.
  std::uint64_t applied_ = 0;             ///< Last record that was applied.
  std::uint64_t state_term_ = 0; ///< Term of the last of these records.
  /// The last decision that was applied. At most one.
  std::vector<decision> decided_;
  /// Number of the last chief of the training whose query was applied. Zero:
  /// none.
  std::uint64_t chief_ = 0;
  client_sessions clients_; ///< Of the commands that have taken effect.

  // The primary.
  std::set<std::uint64_t>
    awaited_workers_; ///< They have not accepted the view.
  std::map<std::uint64_t, follower> followers_; ///< By incarnation.
  /// Records after those that all followers have stored. A backup has them too,
  /// for other backups, in case it becomes the primary.
  std::deque<entry> log_;
  std::uint64_t log_bytes_ = 0;      ///< Of the gradients and trainings in it.
  std::uint64_t last_ = 0;           ///< Last record of the log.
  std::uint64_t term_begin_ = 0;     ///< `last_` when its term began.
  std::set<push_id> pending_pushes_; ///< Not applied yet.
  /// Trainings and steps; not applied yet.
  std::set<std::pair<std::uint64_t, std::uint64_t>> pending_decisions_;
  /// Training and chief of the query that is not applied yet.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> pending_query_;
  std::set<command_id> pending_commands_, pending_reads_; ///< Not performed.
  std::map<std::uint32_t, waiting_pull> pulls_;           ///< By replica.

  // A backup.
  bool has_state_ = false;  ///< False: it waits for a snapshot.
  bool is_in_sync_ = false; ///< It has received `in_sync`.
};

} // namespace troupe::parameter_server
