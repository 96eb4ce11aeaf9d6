#pragma once

#include "troupe/actors/collectives/collective_backend.hpp"
#include "troupe/actors/collectives/nccl/call_record.hpp"
#include "troupe/actors/collectives/nccl/generation_communicator.hpp"
#include "troupe/strategies/collective/operation_log.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace troupe {

/// Options of the collectives of a rank.
struct nccl_options {
  /// Time from the beginning of a generation until all ranks have joined its
  /// communicator.
  std::chrono::milliseconds initialize_timeout{60'000};
  /// Time from the call of a collective by all replicas of the rank until it is
  /// complete. Zero: no limit.
  std::chrono::milliseconds operation_timeout{600'000};
  /// Time for which an orderly end of a generation waits for the other ranks.
  std::chrono::milliseconds finalize_timeout{5'000};
  /// Time for which an error of NCCL is not reported. A lost peer causes such
  /// an error, and the chief should hear of the loss first.
  std::chrono::milliseconds error_report_delay{10'000};
  /// Time for which a blocking `wait` sleeps. Zero: it does not sleep.
  std::chrono::microseconds poll_interval{50};
  /// Time for which the destructor waits until the stream has drained.
  std::chrono::milliseconds close_timeout{10'000};
  /// No group of a generation enters the stream before `start_groups` is called
  /// in it. See the row "start" of `nccl_collectives`.
  bool holds_first_groups = false;
  /// Called once for each generation whose failure is reported, with the
  /// collectives locked. Must not block. Null: not called.
  std::function<void(const collective_backend::failure&)> on_failure{};
  /// Clock of the timeouts. Null: the system's steady clock.
  std::function<std::chrono::steady_clock::time_point()> now{};
};

/// The sums and gathers of the replicas on one device with those on other
/// devices, through NCCL. A device is a rank of the job; the replicas of a rank
/// share this object.
///
///   who      P ranks, each with one device, one communication stream and any
///            number of replicas. Replica threads make all calls here; none of
///            them blocks. `generation_communicator` lists the calls that may
///            block, and runs them on other threads. A watchdog thread calls
///            `check`
///   start    begin_generation: the communicator of the generation is
///            initialised. Collectives that were called earlier wait for it.
///            While a kernel of NCCL waits for another rank, a driver may let
///            an allocation or the first launch of another kernel wait for that
///            kernel. So a collective gets its memory when it is called, and
///            with `holds_first_groups` the first groups of a generation wait
///            until the replicas have launched the kernels of their step
///   on contribute  a copy on the compute stream of the replica, into memory
///            of this object; the communication stream waits for its event. So
///            NCCL never accesses memory of the caller
///   on the call of the last replica of the rank  the collective enters the
///            communication stream, after all that were called before it:
///            records    one group: each rank sends its call records
///            tensors    one group. Sum by tree: each rank sends its subtrees
///                       of the canonical tree to all others, and all add them
///                       in tree order. Sum by another algorithm: the rank adds
///                       its subtrees and calls NCCL's all-reduce. Gather: each
///                       rank sends the tensors of its replicas; the group
///                       starts when the records have arrived
///            event      ends the collective
///   end      of a collective: its event was seen, and all records agree. Only
///            then is its sum visible and a wait for it ready. The sum of
///            tensors on the device is on the device too: a compute stream
///            copies it out of the memory of this object, and those of all
///            replicas of the rank wait for the copy
///   on abort a newer generation, a replica that leaves its step early, a lost
///            peer, a deadline, an error of NCCL or a difference of the
///            records: the communicator is aborted, and no sum of the
///            generation becomes visible any more. The memory of its
///            collectives is released when the stream has drained
///   cost     per bucket two groups and one copy. Sum by tree: a rank receives
///            a bucket per subtree of the other ranks, and has memory for all
///            of them. NCCL's all-reduce: 2(P-1)/P of a bucket
///   order    sum by tree: the canonical tree, for any number of ranks. NCCL's
///            all-reduce: reproducible for one placement only
///   faults   every rank sees a difference of the records and reports it; an
///            error of NCCL is reported after `error_report_delay`, but at
///            once if the device of the rank is lost
class nccl_collectives {
public:
  using wait_condition = collective_backend::wait_condition;
  using wait_status = collective_backend::wait_status;
  using failure = collective_backend::failure;

  /// @param ranks the placement of the replicas on ranks: a process of the
  ///              placement is a rank of the communicator.
  /// @errors throws std::logic_error if a rank has no replica, and
  ///         device_error.
  nccl_collectives(const local_placement& ranks,
                   std::shared_ptr<communication_device> device,
                   std::shared_ptr<communicator_id_exchange> ids,
                   std::shared_ptr<blocking_calls> blocking,
                   const nccl_options& options = {});
  /// Aborts the communicator and waits until the stream has drained. If the
  /// drain lasts longer than `close_timeout`, the memory is never freed.
  ~nccl_collectives();
  nccl_collectives(const nccl_collectives&) = delete;
  nccl_collectives& operator=(const nccl_collectives&) = delete;

  const local_placement& ranks() const { return ranks_; }

  // -- calls of a replica, on its thread --------------------------------------

  /// The functions of a replica do what those of `collective_backend` say.
  void begin_generation(std::uint32_t replica, std::uint64_t generation);
  void begin_step(std::uint32_t replica, std::uint64_t step);
  /// If the collectives of the step are incomplete, aborts the communicator.
  void end_step(std::uint32_t replica);
  bool is_current(std::uint32_t replica);
  /// Lets the groups that `holds_first_groups` has held enter the stream. A
  /// replica calls it when it waits, and so launches no kernel.
  void start_groups();

  /// @param compute the stream whose work makes the contribution and reads the
  ///        sum. If the contribution is on the device, the sum is there too,
  ///        complete for later work of the stream.
  void contribute(std::uint32_t replica, std::uint32_t bucket,
                  const tensor& contribution, const collective_options& options,
                  const std::shared_ptr<device_stream>& compute);
  void gather(std::uint32_t replica, std::uint32_t bucket,
              const tensor& contribution, const collective_options& options);

  wait_status wait(std::uint32_t replica, const wait_condition& condition,
                   bool blocking);
  std::optional<failure> last_failure();
  tensor sum_of(std::uint32_t replica, std::uint32_t bucket);
  tensors gathered(std::uint32_t replica, std::uint32_t bucket);
  std::optional<std::uint32_t> first_incomplete(std::uint32_t replica);
  /// Returns the replicas of this rank that have not called the first
  /// incomplete collective of the step. If all have: all replicas of the other
  /// ranks, since NCCL does not say which ranks it waits for.
  std::vector<std::uint32_t> missing(std::uint64_t step);

  // -- calls of the watchdog and of the owner, on any thread ------------------

  /// Checks deadlines and makes progress, also when no replica calls.
  void check();
  /// Aborts the communicator of a generation, for example because a peer was
  /// lost. No effect if the generation is not the current one.
  void abort(std::uint64_t generation, failure reason);
  /// True if no memory waits for the stream to drain.
  bool is_drained();

private:
  using unique_lock = std::unique_lock<std::mutex>;
  using time_point = std::chrono::steady_clock::time_point;

  /// A contribution on the device.
  struct staged_contribution {
    device_memory memory;
    device_event_ptr copied; ///< In the compute stream.
    std::shared_ptr<device_stream> compute;
  };
  /// Memory of a sum that a compute stream copies.
  struct copied_sum {
    device_memory memory;
    device_event_ptr copied;
  };
  /// Bytes of all replicas, which each rank sends to all others.
  struct exchange {
    std::vector<std::size_t> bytes; ///< By replica.
    std::vector<std::size_t> begin; ///< Offset in the memory, by replica.
    device_memory host, device;     ///< Memory for all replicas.
  };
  /// A collective that all replicas of this rank have called.
  struct device_operation {
    enum class phase { called, records, tensors_next, tensors, enqueued };
    phase current = phase::called;
    std::uint64_t number = 0; ///< Number in the log.
    time_point deadline{};
    /// Parts of a sum, by local replica.
    std::vector<staged_contribution> staged;
    exchange records, gathered;
    /// Sums of subtrees, by the first replica of the subtree; of a sum.
    std::vector<device_memory> parts;
    device_event_ptr records_arrived, done;
    bool records_agree = false;
  };

  time_point now() const;
  collective::operation& logged(const device_operation& op);
  bool is_tree(const device_operation& op);

  void make_progress();
  void start_called();
  void allocate_memory(device_operation& op);
  void submit_all();
  bool submit(device_operation& op);
  void submit_records(device_operation& op);
  bool compare_records(device_operation& op);
  void submit_sum(device_operation& op);
  void submit_gather(device_operation& op);
  void finish_sum(device_operation& op);
  void complete_all();
  void complete(device_operation& op);
  tensor sum_on_device(const device_operation& op, const device_memory& memory,
                       const tensor_spec& spec, const device& on);
  void release_copied_sums();
  void check_deadlines();

  exchange make_exchange(std::vector<std::size_t> bytes);
  void submit(const exchange& data);
  template <class Leaf>
  std::byte* add_tree(std::uint32_t begin, std::uint32_t end, const Leaf& leaf,
                      const tensor_spec& spec);
  bool is_subtree(std::uint32_t begin, std::uint32_t end) const;
  void fail(failure reason, std::chrono::milliseconds report_delay = {});
  void fail_here(const std::string& cause);
  bool is_device_lost() const;
  void end_communicator(bool aborts);
  bool holds(std::uint32_t replica, const wait_condition& condition);
  bool reports_failure();

  local_placement ranks_;
  nccl_options options_;
  communicator_environment environment_;
  /// Largest subtrees of the canonical tree that a rank hosts, by rank.
  std::vector<std::vector<replica_range>> subtrees_;

  std::mutex lock_; ///< Guards all members below.
  std::condition_variable progressed_;
  collective::operation_log log_;
  /// Contributions to sums that not all replicas of the rank have called, in
  /// order, by local replica.
  std::vector<std::vector<staged_contribution>> staged_;
  std::vector<device_operation> operations_; ///< In order of their numbers.
  std::unique_ptr<generation_communicator> communicator_;
  /// Communicators of earlier generations whose memory is still accessed.
  std::vector<std::unique_ptr<generation_communicator>> closing_;
  std::vector<copied_sum> copied_sums_;
  bool holds_groups_ = false;
  std::optional<failure> failure_;
  time_point failure_reported_at_{};
  bool is_failure_reported_ = false;
};

} // namespace troupe
