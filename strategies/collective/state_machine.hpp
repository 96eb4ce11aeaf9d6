#pragma once

#include "troupe/strategies/collective/missing_inputs.hpp"
#include "troupe/strategies/collective/operation_log.hpp"
#include "troupe/strategies/collective/receiver.hpp"
#include "troupe/strategies/collective/schedule/packet_order.hpp"
#include "troupe/strategies/collective/sender.hpp"

/// All-reduce ("sum") and all-gather ("gather") over the replicas of several
/// processes. The state machine is the side of one process.
///
///   who      P processes, each of which hosts some replicas (placement.hpp)
///   messages contribution: sum of one chunk over a subtree of the canonical
///            tree (tree/reduction.hpp); the sender hosts the whole subtree
///            result: sum of one chunk over all replicas
///            gather: one replica's tensor, in pieces, to all other processes
///   start    with a generation; then each replica begins and ends steps
///   on contribute  when all local replicas have called the k-th collective of
///            the step, the collective starts. Process (k + c) mod P adds chunk
///            c. Every other process sends it one contribution for each subtree
///            that the sender hosts (`subtrees_of`). If the bucket is small
///            (all-to-all), every process sends its contributions to all others
///            and computes the whole sum itself
///   on contribution  when all contributions to a chunk have arrived, and the
///            local replicas have contributed: add the contributions in tree
///            order, keep the result and send it to all other processes
///   on result  keep the result
///   on gather  keep the piece; the first piece is the spec of the tensor
///   end      when all results are kept and all packets to peers are sent
///   cost     each process sends and receives 2 (P-1)/P of a bucket, in two
///            hops. All-to-all bucket: P-1 buckets in one hop. R - 1 additions
///            per element
///   order    all replicas call the same collectives in the same order. Two
///            queues lead to each peer, one for contributions and gathers, one
///            for results; each queue keeps the order of packets. A sum has the
///            same bits as the sum of tree/reduction.hpp
///   faults   older generation or step, or a repeated packet -> ignored
///            packet of an operation that has not started here -> the packet
///            stays in its queue
///            unexpected collective, size, type or chunk -> protocol error that
///            names the received and the expected packet
///            a replica ends a step whose packets are not sent -> this process
///            sends and receives no packet for the rest of the generation
///
/// These rows describe the tree algorithm. A sum whose options select the ring
/// algorithm (ring.hpp) uses the same queues. The parts of the state machine:
///
///   operation_log      the calls of the local replicas, in order; what is
///                      complete
///   packet_order       the order of the packets in each queue
///   schedule           the packets of one operation: `tree_schedule`,
///                      `ring_schedule`, `gather_schedule`
///   queue_positions    how far this process is in each queue
///   sender             sends the next packet of a queue
///   receiver           checks and receives the front packet of a queue
///   chunk_reducer      collects the contributions to a chunk of a sum by tree,
///                      and adds them
///   reduce_kernels     the additions, in the order of the canonical tree
///   missing_inputs     what an incomplete operation waits for
namespace troupe::collective {

/// One process's side of the collectives of its replicas. All functions take
/// the replicas' ids in the job.
/// @cost after one step, further steps with the same collectives allocate no
///       memory from the system.
class state_machine {
public:
  /// @errors throws std::logic_error if a process has no replica.
  explicit state_machine(local_placement placed);
  state_machine(const state_machine&) = delete;
  state_machine& operator=(const state_machine&) = delete;

  const local_placement& replica_placement() const { return placement_; }

  // -- calls of the local replicas --------------------------------------------

  /// Notes that a replica has left all older generations. The first call for a
  /// generation starts it and discards the pending operations of older
  /// generations.
  void begin_generation(std::uint32_t replica, std::uint64_t generation);

  /// True if calls of the replica take effect. The replica has then begun the
  /// current generation, and no local replica has ended an undrained step of
  /// this generation.
  bool is_current(std::uint32_t replica) const {
    return log_.is_current(replica);
  }

  /// Begins a step. `step` must be higher than in the replica's last call for
  /// this generation.
  void begin_step(std::uint32_t replica, std::uint64_t step);

  /// Ends the step of a replica. If the step is not drained, this process takes
  /// no further part in the generation and reads no tensor of its replicas any
  /// more. Tensors that were sent without a copy are kept until
  /// `release_zero_copy`.
  void end_step(std::uint32_t replica);

  /// Releases the tensors that were sent without a copy. @pre no peer still
  /// reads these tensors.
  void release_zero_copy() { log_.release_zero_copy(); }

  /// Contributes a tensor of float32 or float64 to a sum. The tensor must not
  /// change until the sum is available. The call is ignored if the replica is
  /// not current.
  /// @errors throws std::logic_error if the tensor has another type, or if this
  ///         replica has already contributed to the bucket in this step. Also
  ///         throws if another local replica passed a different bucket, spec or
  ///         options to the same operation.
  void
  contribute(std::uint32_t replica, std::uint32_t bucket, const tensor& input,
             const collective_options& options = {},
             output_placement result_placement = output_placement::separate);

  /// Contributes a tensor of any shape and type to a gather; the tensor is
  /// copied. `options.algorithm` has no effect. The call is ignored if the
  /// replica is not current.
  /// @errors throws std::logic_error under the conditions of `contribute`, and
  ///         if the tensor has more than `max_gather_bytes`.
  void gather(std::uint32_t replica, std::uint32_t bucket, const tensor& input,
              const collective_options& options = {});

  // -- progress ---------------------------------------------------------------

  /// Sends or receives at most one packet per queue, and adds at most one
  /// chunk.
  /// @returns true if there was progress and no protocol error.
  bool progress(packet_transport& transport);

  /// The first protocol violation of a peer in this generation. Empty: none.
  const std::optional<protocol_error>& error() const {
    return receiver_.error();
  }

  /// Number of operations that have completed in all generations.
  std::uint64_t completed() const { return log_.completed(); }

  // -- results ----------------------------------------------------------------

  /// Returns the sum. Empty handle: the sum is incomplete, or the replica is
  /// not current. All local replicas share the tensor; peers may read it until
  /// the step is drained.
  /// @errors throws std::logic_error if the replica did not contribute to the
  ///         bucket in this step.
  tensor sum_of(std::uint32_t replica, std::uint32_t bucket) const {
    return log_.sum_of(replica, bucket);
  }

  /// Returns the gathered tensors by replica id. Empty: a tensor is missing, or
  /// the replica is not current.
  tensors gathered(std::uint32_t replica, std::uint32_t bucket) const {
    return log_.gathered(replica, bucket);
  }

  /// True if all operations that the replica called are complete.
  bool is_complete(std::uint32_t replica) const;
  /// True if all operations that the replica called are complete, and all of
  /// their packets to peers were passed to the transport.
  bool is_drained(std::uint32_t replica) const;
  /// Returns the bucket of the first incomplete operation. nullopt: no
  /// operation is incomplete, or the replica is not current.
  std::optional<std::uint32_t> first_incomplete(std::uint32_t replica) const;

  /// Returns the missing inputs of the first incomplete operation of a step. If
  /// all inputs have arrived: a peer that has not accepted all packets of the
  /// step. Empty: none. Peers that still read zero-copy buffers are not listed,
  /// because only the transport knows them.
  std::optional<missing_inputs> missing(std::uint64_t step) const;

private:
  void start_ready();

  // Each part uses the parts before it.
  local_placement placement_;
  operation_log log_;
  queue_positions positions_;
  packet_order order_;
  sender sender_;
  receiver receiver_;
};

} // namespace troupe::collective
