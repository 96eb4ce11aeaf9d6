#pragma once

#include "troupe/strategies/parameter_server/messages.hpp"
#include "troupe/strategies/parameter_server/protocol_error.hpp"
#include "troupe/strategies/parameter_server/shard_primary.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <variant>
#include <vector>

/// The chief decides which contributions count in each step of the synchronous
/// parts. So all shards take the same ones, and no shard applies a step to
/// which another shard lacks one. The state machine is the side of the chief;
/// `shard_copy` and `worker` are the other sides.
///
///   who      the chief of a training, the primaries of S shards, the workers
///   of
///            R replicas
///   messages worker to chief: contributed
///            chief to primary: decision_query, decision
///            primary to chief: last_decision, decided
///   start    a process has become the chief, with a higher number than all
///            chiefs of the training before: ask all shards for their last
///            decision. The query is in the log of a shard when it is answered,
///            and what an earlier chief sends behind it has no effect
///   on last_decision  of all shards: send the newest one to all shards. Those
///            that have it answer at once. The others have its contributions,
///            because the chief that made it had heard so
///   on contributed  and
///   on decided  when all shards have answered the last decision, and R - b
///            replicas have contributed to the step after it: ask the host how
///            the R - b that were heard first are applied, and send the
///            decision
///   on view  of a shard: send again, in the new view, what it has not answered
///   on timeout  send again what was not answered
///   end      a shard answers with the number of a later chief, or the
///            training ends
///   cost     for each step one message of each replica, and one each way for
///            each shard. 24 bytes for each replica
///   order    steps are decided in their order, each when all shards have
///            answered the one before. So shards are at most one decision apart
///   faults   an answer of another view of its shard -> ignored. The question
///            is sent again
///            a repeated or older message, or an answer to another chief ->
///            ignored
///            an unknown replica, or two decisions on one step ->
///            protocol_error
namespace troupe::parameter_server {

// -- effects ------------------------------------------------------------------

/// Sends `decision_query` to a primary.
struct send_decision_query {
  std::uint64_t primary = 0; ///< Receiver.
  std::uint32_t shard = 0;
  parameter_server::decision_query decision_query;
};
/// Sends `decision` to a primary.
struct send_decision {
  std::uint64_t primary = 0; ///< Receiver.
  std::uint32_t shard = 0;
  parameter_server::decision decision;
};

/// Another process is the chief now. This one sends nothing any more.
struct chief_superseded {};

/// Asks how the step that is decided next is applied. The host answers with
/// `step_decisions::decide`, now or later.
struct ask_factors {
  std::uint64_t step = 0;
  std::vector<std::uint32_t> contributors; ///< Replicas, ascending.
};

using decision_effect =
  std::variant<send_decision_query, send_decision, ask_factors,
               chief_superseded, protocol_error>;
/// Effects; the host performs them in this order.
using decision_reaction = std::vector<decision_effect>;

/// A process makes one when it becomes the chief, also if it was the chief
/// before another process was: with another number.
class step_decisions {
public:
  /// @param shards number of shards of the job. One without synchronous parts
  ///        answers at once.
  /// @param replicas number R of replicas of the job.
  /// @param backup_workers number b: the lowest one of the synchronous parts.
  /// @param training number of the training. Messages of another one have no
  ///        effect.
  /// @param chief number of this chief, above 0. The coordinator counts the
  ///        chiefs of a training, also in its later lives.
  /// @pre `backup_workers` is below `replicas`.
  step_decisions(std::uint32_t shards, std::uint32_t replicas,
                 std::uint32_t backup_workers, std::uint64_t training,
                 std::uint64_t chief);

  /// A view of a shard has taken effect. No effect if it is not newer.
  decision_reaction on_view(std::uint32_t shard, const shard_primary& next);
  decision_reaction on(const contributed& received);
  // The shard of a message is the one that the sender says it is. No effect if
  // there is no such shard.
  decision_reaction on(std::uint32_t shard, const last_decision& received);
  decision_reaction on(std::uint32_t shard, const decided& received);
  /// The answer to `ask_factors`. No effect if it is of another step.
  decision_reaction decide(std::uint64_t step, const update_factors& factors);
  /// An interval has passed in which a shard can answer.
  decision_reaction on_timeout();

  /// True until all shards have said what their last decision is.
  bool queries() const { return queries_; }
  bool is_superseded() const { return is_superseded_; }
  /// First step without a decision. @pre not `queries()`.
  std::uint64_t next_step() const { return last_ ? last_->step + 1 : 0; }
  /// Number of steps on which all shards have said that they have the decision.
  std::uint64_t decided_steps() const {
    return !last_ ? 0 : last_->step + (awaited_.empty() ? 1 : 0);
  }

private:
  bool supersede(decision_reaction& out, std::uint64_t last_chief);
  void send_to_all(decision_reaction& out);
  void send_to(decision_reaction& out, std::uint32_t shard) const;
  bool is_of_view(std::uint32_t shard, std::uint64_t view_id) const;
  void choose_next(decision_reaction& out);

  const std::uint32_t replicas_;
  const std::uint32_t required_; ///< Contributions to a step that count.
  const std::uint64_t training_;
  const std::uint64_t chief_;
  bool is_superseded_ = false;
  std::vector<shard_primary> views_; ///< By shard.
  bool queries_ = true;
  /// Shards that have not answered the query or the last decision.
  std::set<std::uint32_t> awaited_;
  /// The last decision that was made or found.
  std::optional<decision> last_;
  /// The next decision, which lacks its factors.
  std::optional<decision> next_;
  /// The last report on each replica, in the order of their arrival.
  std::vector<contributed> contributed_;
};

} // namespace troupe::parameter_server
