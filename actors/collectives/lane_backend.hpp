#pragma once

#include "troupe/actors/collectives/collective_backend.hpp"
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
  /// Time for which a waiting thread polls before it sleeps. Zero: it sleeps at
  /// once.
  std::chrono::microseconds spin_timeout{0};
  /// True: this host runs more replicas than it has cores. Then a waiting
  /// thread yields its core before each poll, because the thread that it waits
  /// for may need the core. If it has polled without success, it does not poll
  /// again until a wait has succeeded.
  bool shares_cores = false;
  /// Maximum time that a waiting thread sleeps before its replica reads its
  /// mailbox again.
  std::chrono::milliseconds max_sleep{3};
  std::shared_ptr<fault_injector> faults{}; ///< Fault injector. Null: none.
  /// Called, with the backend's lock held, when waiting replicas should check
  /// their conditions again. Set it where a thread must not sleep, as in the
  /// simulator: `wait` then makes progress and returns at once. Null: waiting
  /// threads sleep until a lane has an event.
  std::function<void()> wake{};
  /// Numbers of the packets between the processes of the job, by process; as
  /// `lane_transport` takes them.
  counts_by_process counts{};
  /// As `lane_transport` takes it.
  std::chrono::nanoseconds loss_timeout = std::chrono::seconds{1};
  /// Clock for the delays of injected faults. Null: the system's steady clock.
  clock_function now{};
};

/// Runs the sums (all-reduces) and gathers (all-gathers) of this process's
/// replicas with other processes. strategies/collective/state_machine.hpp
/// describes the protocol. All replicas of the process share the backend, each
/// on its own thread. One waiting thread at a time, the driver, makes progress:
/// it sends and processes packets. The other waiting threads sleep until the
/// driver notifies them.
class lane_backend {
public:
  /// @param placement placement of the job. Processes that host no replica take
  ///                  no part, and their lanes are closed.
  /// @param lanes by process: one lane for each `collective::lane_id`. Empty
  ///              for this process.
  /// @errors throws std::logic_error if `lanes` does not fit the placement, or
  ///         this process hosts no replica.
  lane_backend(const local_placement& placement, std::vector<peer_lanes> lanes,
               const lane_backend_options& options = {});
  ~lane_backend();
  lane_backend(const lane_backend&) = delete;
  lane_backend& operator=(const lane_backend&) = delete;

  /// Returns the placement among the processes that host replicas.
  const local_placement& replica_placement() const;

  /// Returns true if a waiting thread may sleep, that is if the options have no
  /// `wake`.
  bool blocks() const;

  /// Failure of another process. A collective can complete after the failure
  /// only if all packets that it needs have already arrived.
  struct peer_failure {
    std::uint32_t process = 0; ///< The peer that failed.
    /// How the peer failed. `ec::protocol`: it violated the protocol.
    ec code = ec::peer_lost;
    std::string reason; ///< How its lane ended, or what it violated.
  };

  // -- calls of a replica, on its thread --------------------------------------

  /// Begins a generation for a replica that has left all steps of older
  /// generations. The first call for a generation abandons all collectives of
  /// older generations.
  void begin_generation(std::uint32_t replica, std::uint64_t generation);
  /// Begins a step of a replica. @pre `step` is higher than the replica's last
  /// step of this generation.
  void begin_step(std::uint32_t replica, std::uint64_t step);
  /// Ends the step of a replica. If the collectives of the step have not
  /// drained, this process takes no further part in the generation.
  void end_step(std::uint32_t replica);

  /// Contributes to a sum, and makes progress as far as possible.
  /// @param output says whether the sum may overwrite `contribution`.
  /// @errors throws std::logic_error if the replica has already contributed to
  ///         the bucket. Throws it also if another replica of this process used
  ///         another bucket, shape, dtype or options for this collective of the
  ///         step.
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

  using wait_condition = collective_backend::wait_condition;
  using wait_status = collective_backend::wait_status;
  /// Makes progress as the driver, or waits for the driver. Returns when
  /// `condition` holds, a peer has failed, or this thread has slept. A sleep
  /// ends after at most `max_sleep`.
  /// @param blocking if false, makes progress and returns without waiting.
  wait_status wait(std::uint32_t replica, const wait_condition& condition,
                   bool blocking);

  /// Returns true while the replica's step is valid. The step is invalid after
  /// a replica of this process has begun a newer generation, or has ended an
  /// undrained step of this generation.
  bool is_current(std::uint32_t replica);
  /// Returns the sum of a bucket; an empty handle while the sum is incomplete.
  /// @errors throws std::logic_error if the replica did not contribute to the
  ///         bucket in this step.
  tensor sum_of(std::uint32_t replica, std::uint32_t bucket);
  /// Returns the tensors of a gather in order of replica id; empty while some
  /// are missing.
  tensors gathered(std::uint32_t replica, std::uint32_t bucket);
  /// Returns the first failure of a peer; nullopt: none.
  std::optional<peer_failure> failure();
  /// Returns the bucket of the first incomplete collective of the replica's
  /// step; nullopt if all collectives are complete.
  std::optional<std::uint32_t> first_incomplete(std::uint32_t replica);
  /// Returns the inputs that are missing in a step; nullopt: none.
  std::optional<collective::missing_inputs> missing_inputs(std::uint64_t step);
  /// Returns all replicas of each process that has not accepted all packets of
  /// this process, or still reads a zero-copy buffer of this process.
  std::vector<std::uint32_t> pending_receivers();

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
