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
struct data_plane_options {
  /// Time for which a waiting thread polls before it sleeps. Zero: it does not
  /// poll, which is right if a host runs more replicas than it has cores.
  std::chrono::microseconds polling{0};
  /// Maximum sleep of a waiting thread before its replica reads its mailbox.
  std::chrono::milliseconds nap{3};
  std::shared_ptr<fault_seam> faults{}; ///< Fault injector. Null: none.
  /// Names of the processes for error texts, such as "worker 1". Empty:
  /// "process 0", "process 1" and so on.
  std::vector<std::string> names{};
  /// Set where a thread must not sleep, as in the simulator. `wait` then only
  /// makes progress and returns. The backend calls this function, with its lock
  /// held, when waiting replicas should check their conditions again. Null:
  /// waiting threads sleep on the lanes.
  std::function<void()> wake{};
  /// Clock for the delays of injected faults. Null: the system's steady clock.
  courier_clock now{};
};

/// A process's side of the sums and gathers among processes
/// (strategies/collective/state_machine.hpp). The replicas of the process share
/// it, each on its own thread. One waiting thread, the driver, makes progress;
/// the other waiting threads sleep until the driver notifies them.
class data_plane {
public:
  /// @param lanes lanes to each process; those of this process are null.
  /// @errors throws std::logic_error if `lanes` does not fit the placement.
  data_plane(const exchange::layout& at, std::vector<peer_lanes> lanes,
             const data_plane_options& options = {});
  ~data_plane();
  data_plane(const data_plane&) = delete;
  data_plane& operator=(const data_plane&) = delete;

  const exchange::layout& at() const;

  /// True if a waiting thread may sleep; false if the options have `wake`.
  bool sleeps() const;

  /// Failure of a peer, because of which no collective can complete.
  struct trouble {
    std::uint32_t process = 0; ///< The peer that failed.
    /// How it failed. `protocol_error`: it violated the protocol.
    net::ending how = net::ending::dead;
    /// Text for people: "worker 1 (replicas 2, 3) was lost: ..."
    std::string why;
  };

  // -- calls of a replica, on its thread --------------------------------------

  /// The replica has left all steps of older generations. The first replica
  /// that calls this begins the generation and abandons older collectives.
  void seat(std::uint32_t replica, std::uint64_t epoch);
  /// The replica begins a step, with a higher number than its last step of this
  /// generation.
  void enter(std::uint32_t replica, std::uint64_t step);
  /// The replica ends its step. If its collectives have not drained, the
  /// generation ends in this process.
  void leave(std::uint32_t replica);

  /// Contributes to a sum, and makes progress as far as possible.
  /// @param output whether the sum may overwrite `contribution`.
  /// @errors throws std::logic_error if the contribution does not match that of
  ///         another replica of this process, or is the second one.
  void contribute(std::uint32_t replica, std::uint32_t bucket,
                  const tensor& part, const terms& said = {},
                  exchange::room of_sum = exchange::room::own);
  /// Contributes to a gather, and makes progress as far as possible. The tensor
  /// is copied.
  /// @errors throws std::logic_error if it is the second contribution.
  void gather(std::uint32_t replica, std::uint32_t bucket, const tensor& part,
              const terms& said = {});

  /// The condition that a replica waits for.
  struct wish {
    enum class kind {
      sum,      ///< The sum of the bucket is known.
      gather,   ///< The gather of the bucket is known.
      complete, ///< All collectives of the replica's step are complete.
      /// All of them are complete, and no packet or buffer of them is held.
      settled
    } what = kind::settled;
    std::uint32_t bucket = 0; ///< Bucket of a sum or gather.
  };
  /// Outcome of a wait: the condition holds, does not hold yet, or cannot hold
  /// any more because a peer has failed.
  enum class news { granted, waiting, troubled };

  /// Makes progress, or waits for the driver, until `condition` holds or
  /// `max_sleep` has elapsed.
  /// @param blocking false: makes progress and returns without waiting.
  news wait(std::uint32_t replica, const wish& x, bool patient);

  /// True while the replica's step is valid: no other replica of this process
  /// has left it early or has begun a newer generation.
  bool current(std::uint32_t replica);
  /// @returns the sum of a bucket; an empty handle while it is incomplete.
  /// @errors throws std::logic_error if the replica did not contribute to it in
  ///         this step.
  tensor sum_of(std::uint32_t replica, std::uint32_t bucket);
  /// @returns the tensors of a gather in order of replica id; empty while some
  ///          are missing.
  tensors gathered(std::uint32_t replica, std::uint32_t bucket);
  /// @returns the first failure of a peer, if any.
  std::optional<trouble> troubled();
  /// @returns the bucket of the first incomplete collective of the replica's
  ///          step; zero if all are complete.
  std::uint32_t incomplete(std::uint32_t replica);
  /// @returns the inputs that the given step misses, if any.
  std::optional<exchange::lack> lacking(std::uint64_t step);
  /// @returns the replicas of all processes that have not accepted their
  ///          packets or still read zero-copy buffers.
  std::vector<std::uint32_t> unread();

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
