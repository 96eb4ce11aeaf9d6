#pragma once

#include "troupe/strategies/parameter_server/messages.hpp"
#include "troupe/strategies/parameter_server/shard_primary.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::parameter_server {

// -- effects ------------------------------------------------------------------

/// Sends `accepted` to a primary.
struct send_accepted {
  std::uint64_t primary = 0; ///< Receiver.
  std::uint32_t shard = 0;
  parameter_server::accepted accepted;
};
/// Sends a push to a primary.
struct send_push {
  std::uint64_t primary = 0; ///< Receiver.
  std::uint32_t shard = 0;
  parameter_server::push push;
  payload gradient;
};
/// Sends a pull to a primary.
struct send_pull {
  std::uint64_t primary = 0; ///< Receiver.
  std::uint32_t shard = 0;
  parameter_server::pull pull;
};
/// A push of this worker was acknowledged, and will not be lost.
struct push_done {
  std::uint32_t shard = 0;
  push_id id;
  /// The step was decided when the shard gave this answer. The decision says
  /// whether the contribution counts.
  bool is_decided = false;
};
/// A pull is complete. The host has the parameters of the answer.
struct pull_done {
  std::uint32_t shard = 0;
  std::uint32_t replica = 0;
  std::uint64_t step = 0;
  std::uint64_t next_step = 0;         ///< As in `pulled`.
  std::vector<std::uint64_t> versions; ///< As in `pulled`.
};
/// A shard has rejected a push.
struct worker_error {
  std::uint32_t shard = 0;
  push_result result = push_result::accepted; ///< Why it rejected the push.
  push_id id;                                 ///< The push.
};

using worker_effect = std::variant<send_accepted, send_push, send_pull,
                                   push_done, pull_done, worker_error>;
/// Effects; the host performs them in this order.
using worker_reaction = std::vector<worker_effect>;

/// Number of times that a replica reads parameters in place. If none counts, it
/// pulls them.
inline constexpr int max_reads_in_place = 4;

/// A read of parameters in the memory of a primary on the host of the worker.
struct read_in_place {
  std::uint64_t primary = 0; ///< Whose memory is read.
  std::uint32_t shard = 0;
  parameter_server::pull pull; ///< What is read. Its number is zero.
};

/// The side of a worker in the protocol of `shard_copy`, for one training:
/// keeps every push until it is acknowledged and every pull until it is
/// answered, and sends them again when a view has changed, a shard begins to
/// serve, or an answer is late. A shard makes no difference between a push that
/// it receives once or twice.
///
///   cost  a gradient is kept until its push is acknowledged
class worker {
public:
  /// @param self incarnation of this process.
  /// @param shards number of shards of the job.
  /// @param training number of the training. Messages of another one have no
  ///        effect.
  worker(std::uint64_t self, std::uint32_t shards, std::uint64_t training);

  /// A view of a shard has taken effect. No effect if it is not newer. What is
  /// read in place at this time does not count.
  worker_reaction on_view(std::uint32_t shard, const shard_primary& next);

  /// @pre `id` was not pushed by this worker before.
  worker_reaction push(std::uint32_t shard, const push_id& id,
                       std::uint64_t read_version,
                       const update_factors& factors, payload gradient);
  /// Takes the place of the pull of this replica at this shard before.
  worker_reaction pull(std::uint32_t shard, std::uint32_t replica,
                       std::uint64_t step, std::vector<std::uint32_t> parts);

  /// Begins to read in place what `pull` asks for.
  /// @returns nullopt: no primary serves in the view of this worker, so only
  ///          `pull` can answer.
  std::optional<parameter_server::read_in_place>
  read_in_place(std::uint32_t shard, std::uint32_t replica, std::uint64_t step,
                std::vector<std::uint32_t> parts) const;
  /// True if what was read in place counts. Otherwise the parameters may have
  /// changed, or the primary may have been replaced, while they were read.
  /// @param before `shard_copy::answer_in_place` before the first element was
  ///        read.
  /// @param after the same after the last element was read.
  bool counts(const parameter_server::read_in_place& done,
              const std::optional<pulled>& before,
              const std::optional<pulled>& after) const {
    return done.pull.view_id == shards_.at(done.shard).view.view_id && before
           && after && before->versions == after->versions;
  }

  /// Forgets a push that the host gives up. The shard may have it.
  void give_up(std::uint32_t shard, const push_id& id);
  /// Forgets the pulls and pushes of a replica that was moved away.
  void release(std::uint32_t replica);

  // The shard of a message is the one that the sender says it is. No effect if
  // there is no such shard.
  worker_reaction on(std::uint32_t shard, const pushed& received);
  worker_reaction on(std::uint32_t shard, const pulled& received);
  worker_reaction on(std::uint32_t shard, const serving& received);
  /// An interval has passed in which a shard can answer.
  worker_reaction on_timeout();

  /// Number of pushes that are not acknowledged.
  std::size_t unacknowledged() const;

private:
  struct kept_push {
    std::uint64_t read_version = 0;
    update_factors factors;
    payload gradient;
  };
  struct connection {
    shard_primary view;
    bool serves = false; ///< In this view.
    std::map<push_id, kept_push> pushes;
    std::map<std::uint32_t, parameter_server::pull> pulls; ///< By replica.
  };

  connection* find(std::uint32_t shard);
  void send_all(worker_reaction& out, std::uint32_t shard) const;
  void send_again(worker_reaction& out, std::uint32_t shard) const;

  const std::uint64_t self_;
  const std::uint64_t training_;
  std::uint64_t last_pull_ = 0;
  std::vector<connection> shards_;
};

} // namespace troupe::parameter_server
