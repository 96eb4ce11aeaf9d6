#pragma once

#include "troupe/strategies/collective/packet.hpp"
#include "troupe/strategies/collective/ring.hpp"

#include <optional>
#include <string>
#include <vector>

/// All-reduce ("sum") and all-gather ("gather") over the replicas of several
/// processes. This is the side of one process.
///
///   who      P processes, each of which hosts some replicas (placement.hpp)
///   messages contribution: sum of one chunk over a whole subtree of the
///            sender's replicas
///            result: sum of one chunk over all replicas
///            gather: one replica's tensor, in pieces
///   start    with a generation; then each replica begins and ends steps
///   on contribute  by all local replicas: the k-th collective of the step
///            starts. Chunk c is added by process (k + c) mod P. Every other
///            process sends it one contribution for each maximal subtree of
///            the canonical tree (tree/reduction.hpp) that covers only replicas
///            of the sender. For a small (all-to-all) bucket every process
///            sends its contributions to all others and adds all of them itself
///   on contribution  when all contributions to a chunk have arrived, and the
///            local replicas have contributed: add them in tree order, keep the
///            result and send it to all others
///   on result  keep it
///   on gather  keep the piece; the first piece is the spec of the tensor
///   end      when all chunks of all collectives are kept and sent
///   cost     2 (P-1)/P of a bucket out of and into each process, two hops; for
///            an all-to-all bucket P-1 buckets and one hop. R - 1 additions per
///            element
///   order    all replicas call the same collectives in the same order. Chunks
///            travel in order; contributions (with gathers) and results each
///            have a queue. The sum equals that of tree/reduction.hpp to the
///            last bit
///   faults   older generation or step, or a repeated packet -> ignored
///            operation that has not started here -> the packet stays in its
///            queue
///            unexpected collective, size, type or chunk -> protocol error that
///            names the received and the expected packet
///            a replica ends a step before its packets are sent -> this process
///            sends and receives no packet for the rest of the generation
///
/// This is the tree algorithm. A collective whose options say so uses a ring
/// instead (ring.hpp), over the same queues.
namespace troupe::collective {

/// A peer violated the protocol.
struct protocol_error {
  std::uint32_t process = 0; ///< Process that sent an unexpected packet.
  std::string reason;        ///< For people.
};

/// Missing inputs of the first incomplete collective.
struct missing_inputs {
  bool gather = false; ///< The collective is a gather, not a sum.
  std::uint32_t bucket = 0;
  /// Processes that are waited for, ascending; may include this one.
  std::vector<std::uint32_t> processes;
  /// Their missing replicas, ascending. For a sum: all replicas of a remote
  /// process.
  std::vector<std::uint32_t> replicas;
};

/// One process's side of the collectives of its replicas. Replicas are named by
/// their ids in the job.
/// @cost after one step ran, a further step with the same collectives allocates
///       no memory from the system.
class state_machine {
public:
  /// @errors throws std::logic_error if a process has no replica.
  explicit state_machine(local_placement placed);

  const local_placement& replica_placement() const { return placement_; }

  // -- calls of the local replicas --------------------------------------------

  /// Notes that a replica has left all older generations. The first call for a
  /// generation starts it and discards everything that is pending in an older
  /// one.
  void begin_generation(std::uint32_t replica, std::uint64_t generation);

  /// True if the calls of a replica take effect: it has begun the current
  /// generation, and no local replica has ended a step of it too early.
  bool is_current(std::uint32_t replica) const;

  /// Begins a step. Its number must be higher than that of the last step in
  /// this generation.
  void begin_step(std::uint32_t replica, std::uint64_t step);

  /// Ends the step. If the step is not drained, the generation ends here, and
  /// no code of this process reads any replica's tensors any more. Tensors that
  /// were sent without a copy are kept until `release_zero_copy`.
  void end_step(std::uint32_t replica);

  /// Releases the tensors that were sent without a copy. @pre no peer reads
  /// them any more.
  void release_zero_copy();

  /// Contributes a tensor of float32 or float64 to a sum. The tensor must not
  /// change until the sum is available. Ignored if the replica is not current.
  /// @errors throws std::logic_error if another local replica contributed
  ///         something different to this operation, or if this replica already
  ///         contributed to the bucket.
  void
  contribute(std::uint32_t replica, std::uint32_t bucket, const tensor& input,
             const collective_options& options = {},
             output_placement result_placement = output_placement::separate);

  /// Contributes a tensor of any shape and type to a gather; the tensor is
  /// copied. The algorithm in the options is ignored. Ignored if the replica is
  /// not current.
  /// @errors throws std::logic_error under the conditions of `contribute`, and
  ///         if the tensor has more than `max_gather_bytes`.
  void gather(std::uint32_t replica, std::uint32_t bucket, const tensor& input,
              const collective_options& options = {});

  // -- progress ---------------------------------------------------------------

  /// Moves at most one packet per queue, and adds at most one chunk.
  /// @returns true if anything moved.
  bool progress(packet_transport& transport);

  /// The first protocol violation of a peer in this generation. Empty: none.
  const std::optional<protocol_error>& error() const { return error_; }

  /// Number of completed operations; never decreases.
  std::uint64_t completed() const { return completed_; }

  // -- results ----------------------------------------------------------------

  /// @returns the sum, or an empty handle while it is incomplete or if the
  ///          replica is not current. All local replicas share the tensor;
  ///          peers may read it until the step is drained.
  /// @errors throws std::logic_error if the replica did not contribute to the
  ///         bucket in this step.
  tensor sum_of(std::uint32_t replica, std::uint32_t bucket) const;

  /// @returns all gathered tensors by replica id; empty while some are missing.
  tensors gathered(std::uint32_t replica, std::uint32_t bucket) const;

  /// True if all operations that the replica called are complete.
  bool is_complete(std::uint32_t replica) const;
  /// True if, in addition, all packets to peers for these operations were
  /// passed to the transport.
  bool is_drained(std::uint32_t replica) const;
  /// @returns the bucket of the first incomplete operation. Zero if none is
  ///          incomplete or the replica is not current.
  std::uint32_t first_incomplete(std::uint32_t replica) const;

  /// @returns the missing inputs of the first incomplete operation of a step.
  ///          If all are complete, it names a peer that has not accepted its
  ///          packets. Peers that still read zero-copy buffers are reported
  ///          by the transport only.
  std::optional<missing_inputs> missing(std::uint64_t step) const;

private:
  /// One collective of a step.
  struct operation {
    /// `contribution`: a sum. `gather_contribution`: a gather.
    packet_kind kind = packet_kind::contribution;
    std::uint64_t step = 0;     ///< Step that the operation belongs to.
    std::uint32_t sequence = 0; ///< Index in the step, from 0.
    std::uint32_t bucket = 0;   ///< Bucket of the sum, or number of the gather.
    /// Replica that called the collective first.
    std::uint32_t first_contributor = 0;
    collective_options options;
    tensor_spec spec; ///< Spec of the bucket. Unused by a gather.
    chunking chunks;  ///< Chunks of the bucket. Unused by a gather.
    output_placement result_placement = output_placement::separate;
    bool started = false; ///< All local replicas have contributed.
    /// Once started: chunks or gathered tensors to come.
    std::uint32_t remaining = 0;
    tensors inputs;   ///< Contributions of the local replicas.
    tensor output;    ///< The sum. Unused by a gather.
    tensors gathered; ///< Gathered tensors by replica id.
  };
  /// Position of the next packet of a queue. `j` and `i` number what an
  /// operation sends through the queue:
  ///   sum by tree  j-th chunk of the reducing process, i-th subtree
  ///   gather       j-th replica of the sender, i-th piece of its tensor
  ///   sum by ring  j-th group of chunks, i-th hop
  struct cursor {
    /// Operation number, counted over the generation.
    std::uint64_t operation_number = 0;
    std::uint32_t j = 0;
    std::uint32_t i = 0;

    auto operator<=>(const cursor&) const = default;
  };
  /// State of one incoming queue of one peer.
  struct receive_state {
    cursor next;        ///< The expected packet.
    packet_header last; ///< The last packet that was popped.
    /// Destination of a copy that is in progress. Empty: none.
    std::span<std::byte> destination;
    tensor destination_owner; ///< Keeps the tensor of `destination` alive.
    bool received = false;    ///< The copy is complete.
    /// The front packet is the last contribution to a chunk; it is popped after
    /// the addition.
    bool chunk_arrived = false;
    gather_spec spec{}; ///< Spec of the gathered tensor.
  };
  struct peer_state {
    receive_state contributions, results;
    cursor contributions_out, results_out;
  };
  struct local_replica_state {
    std::uint64_t generation = 0, step = 0;
    std::uint64_t first = 0; ///< Number of its first operation in the step.
    std::uint64_t next = 0;  ///< Number of its next operation.
    /// Highest bucket and highest gather of the step.
    std::array<std::int64_t, 2> highest{-1, -1};
    bool inside = false;
  };
  enum class packet_match { expected, stale, early, mismatch };

  // state_machine.cpp: calls of the replicas, and results
  void start_generation(std::uint64_t generation);
  void discard_rest(receive_state& state, std::size_t bytes);
  local_replica_state& state_of(std::uint32_t replica);
  const local_replica_state& state_of(std::uint32_t replica) const;
  operation& next_operation(std::uint32_t replica, packet_kind kind,
                            std::uint32_t bucket, const tensor& input,
                            const collective_options& options);
  const operation* find(const local_replica_state& m, packet_kind kind,
                        std::uint32_t bucket) const;
  void start_ready();
  void start_operation(operation& op);
  void complete_one(operation& op);
  void complete_operation();
  void trim();
  void release_inputs(operation& op);
  operation& operation_at(std::uint64_t number) {
    return operations_[number - base_];
  }
  const operation& operation_at(std::uint64_t number) const {
    return operations_[number - base_];
  }
  std::uint32_t rank() const { return placement_.process; }
  std::uint32_t processes() const { return placement_.job.processes(); }
  std::uint32_t replicas() const { return placement_.job.replicas(); }
  std::uint32_t local_count() const { return placement_.count(); }
  /// @returns the contribution of a replica of this process.
  const tensor& input_of(const operation& op, std::uint32_t replica) const {
    return op.inputs[placement_.job.index_of(replica)];
  }

  // schedule.cpp: which packet comes next
  bool next_contribution(cursor& position, std::uint32_t sender,
                         std::uint32_t receiver) const;
  bool next_result(cursor& position, std::uint32_t sender,
                   std::uint32_t receiver) const;
  bool next_chunk_to_add(cursor& position) const;
  std::uint32_t chunk_of(const operation& op, std::uint32_t reducer,
                         std::uint32_t j) const;
  bool has_chunk(const operation& op, std::uint32_t reducer,
                 std::uint32_t j) const;
  packet_header header_of(const operation& op, packet_kind kind,
                          std::uint32_t sender) const;
  packet_header contribution_header(const cursor& position,
                                    std::uint32_t sender,
                                    std::uint32_t receiver) const;
  packet_header result_header(const cursor& position,
                              std::uint32_t sender) const;
  std::span<std::byte> bytes_of(const operation& op, const tensor& in,
                                std::uint32_t chunk) const;
  std::optional<missing_inputs> undelivered(std::uint64_t step) const;
  static std::string describe(const packet_header& header);
  std::string describe_mismatch(const packet_header& received,
                                const packet_header& expected) const;

  // sender.cpp: sending
  bool send_contribution(packet_transport& transport, std::uint32_t peer);
  bool send_gather_piece(packet_transport& transport, std::uint32_t peer,
                         const packet_header& header);
  bool send_result(packet_transport& transport, std::uint32_t peer);
  static void fold_inputs(const operation& op, std::span<const tensor> inputs,
                          std::uint32_t chunk, std::span<std::byte> into);

  // receiver.cpp: receiving and adding
  bool receive_result(packet_transport& transport, std::uint32_t peer);
  bool receive_contribution(packet_transport& transport, std::uint32_t peer);
  bool receive_gather_piece(packet_transport& transport, std::uint32_t peer,
                            const packet_header& expected);
  packet_match classify(packet_transport& transport, std::uint32_t peer,
                        lane_id lane, const packet_header* expected);
  bool has_size(packet_transport& transport, std::uint32_t peer, lane_id lane,
                std::size_t bytes);
  bool is_aligned(std::uint32_t peer, const std::byte* at, dtype type);
  bool read_into(packet_transport& transport, std::uint32_t peer, lane_id lane,
                 std::span<std::byte> into, const tensor& keep);
  void pop(packet_transport& transport, std::uint32_t peer, lane_id lane);
  bool discard(packet_transport& transport, std::uint32_t peer, lane_id lane);
  bool add_chunk(packet_transport& transport);
  void fold(operation& op, std::uint32_t chunk);
  void set_error(std::uint32_t process, std::string reason);

  // ring_schedule.cpp: the ring
  bool uses_ring(const operation& op) const;
  ring ring_of(const operation& op) const { return {processes(), op.sequence}; }
  std::uint32_t previous_process() const {
    return (rank() + processes() - 1) % processes();
  }
  bool next_hop(cursor& position, packet_kind kind, std::uint32_t sender,
                std::uint32_t receiver) const;
  std::uint32_t chunk_at(const cursor& position, packet_kind kind,
                         std::uint32_t sender) const;
  bool forward_contribution(packet_transport& transport, std::uint32_t peer,
                            const packet_header& header);
  bool can_send_result(const cursor& position) const;
  bool receive_ring_contribution(packet_transport& transport,
                                 std::uint32_t peer,
                                 const packet_header& expected);
  bool contribution_was_sent(const cursor& sum, std::uint32_t chunk) const;
  void add_local(const operation& op, std::uint32_t chunk,
                 std::span<const std::byte> theirs, std::span<std::byte> into);
  std::vector<std::uint32_t> silent_ring_peers(const operation& op) const;

  receive_state& receive_state_of(std::uint32_t peer, lane_id lane) {
    return lane == lane_id::contributions ? peers_[peer].contributions
                                          : peers_[peer].results;
  }

  local_placement placement_;
  std::uint64_t generation_ = 0;
  bool aborted_ = false; ///< A replica ended a step too early.
  std::optional<protocol_error> error_;
  pooled<local_replica_state> local_replicas_;
  pooled<operation> operations_;
  std::uint64_t base_ = 0;     ///< Number of the first operation that is kept.
  std::uint64_t ready_ = 0;    ///< Operations before it have started.
  std::uint64_t complete_ = 0; ///< Operations before it are complete.
  std::uint64_t completed_ = 0;
  /// By process; the entry of this process is unused.
  std::vector<peer_state> peers_;
  cursor next_to_add_; ///< The next chunk to add here.
  /// Maximal subtrees by process.
  std::vector<std::vector<replica_range>> subtrees_;
  /// By replica r: the replicas [r, range_end_[r]) have one process, and the
  /// next one has another.
  std::vector<std::uint32_t> range_end_;
  /// Receive buffers, by the first replica of a subtree. Empty if unused.
  std::vector<tensor> scratch_;
  /// Arrived contributions, by the first replica of their subtree.
  std::vector<const std::byte*> leaves_;
  tensor discard_buffer_;
  /// Peers may still read tensors of this process.
  bool zero_copy_pending_ = false;
  tensors zero_copy_tensors_; ///< Tensors that only peers may still read.
};

} // namespace troupe::collective
