#pragma once

#include "troupe/actors/collectives/lane_transport.hpp"
#include "troupe/strategies/collective/state_machine.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Options of a lane backend.
struct lane_backend_options {
  /// Time for which a waiting thread polls before it sleeps. Zero: it does not
  /// poll, which is right if a host runs more replicas than it has cores.
  std::chrono::microseconds spin_timeout{0};
  /// Maximum sleep of a waiting thread before its replica reads its mailbox.
  std::chrono::milliseconds max_sleep{3};
  std::shared_ptr<fault_injector> faults{}; ///< Fault injector. Null: none.
  /// Names of the processes for error texts, such as "worker 1". Empty:
  /// "process 0", "process 1" and so on.
  std::vector<std::string> names{};
  /// Set where a thread must not sleep, as in the simulator. `wait` then only
  /// makes progress and returns. The backend calls this function, with its lock
  /// held, when waiting replicas should check their conditions again. Null:
  /// waiting threads sleep on the lanes.
  std::function<void()> wake{};
  /// Clock for the delays of injected faults. Null: the system's steady clock.
  clock_function now{};
};

/// One process's side of the all-reduces ("sums") and all-gathers ("gathers")
/// over several processes (strategies/collective/state_machine.hpp). The
/// replicas of the process share it, each on its own thread. One waiting
/// thread, the driver, makes progress; the other waiting threads sleep until
/// the driver notifies them.
class lane_backend {
public:
  /// @param lanes lanes to each process; those of this process are null.
  /// @errors throws std::logic_error if `lanes` does not fit the placement.
  lane_backend(const local_placement& placement, std::vector<peer_lanes> lanes,
               const lane_backend_options& options = {});
  ~lane_backend();
  lane_backend(const lane_backend&) = delete;
  lane_backend& operator=(const lane_backend&) = delete;

  const local_placement& replica_placement() const;

  /// True if a waiting thread may sleep; false if the options have `wake`.
  bool blocks() const;

  /// Failure of a peer, because of which no collective can complete.
  struct peer_failure {
    std::uint32_t process = 0; ///< The peer that failed.
    /// How it failed. `protocol_error`: it violated the protocol.
    net::close_reason reason = net::close_reason::closed;
    /// Text for people: "worker 1 (replicas 2, 3) was lost: ..."
    std::string description;
  };

  // -- calls of a replica, on its thread --------------------------------------

  /// Begins a generation for a replica that has left all steps of older ones.
  /// The first call for a generation abandons the collectives of older ones.
  void begin_generation(std::uint32_t replica, std::uint64_t generation);
  /// Begins a step of a replica. @pre `step` is higher than the replica's last
  /// step of this generation.
  void begin_step(std::uint32_t replica, std::uint64_t step);
  /// Ends the step of a replica. If its collectives have not drained, the
  /// generation ends in this process.
  void end_step(std::uint32_t replica);

  /// Contributes to a sum, and makes progress as far as possible.
  /// @param output whether the sum may overwrite `contribution`.
  /// @errors throws std::logic_error if the contribution does not match that of
  ///         another replica of this process, or if the replica has already
  ///         contributed to the bucket.
  void contribute(std::uint32_t replica, std::uint32_t bucket,
                  const tensor& contribution,
                  const collective_options& options = {},
                  collective::output_placement output =
                    collective::output_placement::separate);
  /// Contributes to a gather, and makes progress as far as possible. The tensor
  /// is copied.
  /// @errors throws std::logic_error if the replica has already contributed to
  ///         the gather.
  void gather(std::uint32_t replica, std::uint32_t bucket,
              const tensor& contribution,
              const collective_options& options = {});

  /// The condition that a replica waits for.
  struct wait_condition {
    enum class kind {
      sum,      ///< The sum of the bucket is complete.
      gather,   ///< The gather of the bucket is complete.
      complete, ///< All collectives of the replica's step are complete.
      /// All of them are complete, and no packet or buffer of them is held.
      drained
    } event = kind::drained;
    std::uint32_t bucket = 0; ///< Bucket of a sum or gather.
  };
  /// Outcome of a wait: the condition holds, does not hold yet, or cannot hold
  /// any more because a peer has failed.
  enum class wait_status { ready, pending, failed };

  /// Makes progress, or waits for the driver, until `condition` holds or
  /// `max_sleep` has elapsed.
  /// @param blocking false: makes progress and returns without waiting.
  wait_status wait(std::uint32_t replica, const wait_condition& condition,
                   bool blocking);

  /// True while the replica's step is valid: no other replica of this process
  /// has left it early or has begun a newer generation.
  bool is_current(std::uint32_t replica);
  /// @returns the sum of a bucket; an empty handle while it is incomplete.
  /// @errors throws std::logic_error if the replica did not contribute to it in
  ///         this step.
  tensor sum_of(std::uint32_t replica, std::uint32_t bucket);
  /// @returns the tensors of a gather in order of replica id; empty while some
  ///          are missing.
  tensors gathered(std::uint32_t replica, std::uint32_t bucket);
  /// @returns the first failure of a peer, if any.
  std::optional<peer_failure> failure();
  /// @returns the bucket of the first incomplete collective of the replica's
  ///          step; zero if all are complete.
  std::uint32_t first_incomplete(std::uint32_t replica);
  /// @returns the inputs that the given step misses, if any.
  std::optional<collective::missing_inputs> missing_inputs(std::uint64_t step);
  /// @returns the replicas of all processes that have not accepted their
  ///          packets or still read zero-copy buffers.
  std::vector<std::uint32_t> pending_receivers();

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
