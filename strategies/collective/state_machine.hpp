#pragma once

#include "troupe/strategies/collective/packet.hpp"
#include "troupe/strategies/collective/ring.hpp"

#include <optional>
#include <string>
#include <vector>

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
/// algorithm (ring.hpp) uses the same queues.
namespace troupe::collective {

/// A peer violated the protocol.
struct protocol_error {
  std::uint32_t process = 0; ///< Process that sent the unexpected packet.
  std::string reason;        ///< Text for people.
};

/// Missing inputs of the first incomplete collective.
struct missing_inputs {
  /// True: the collective is a gather. False: it is a sum.
  bool gather = false;
  std::uint32_t bucket = 0;
  /// Processes whose inputs are missing, ascending. This process may be one of
  /// them.
  std::vector<std::uint32_t> processes;
  /// Replicas of these processes whose inputs are missing, ascending. For a
  /// sum, all replicas of a remote process are listed.
  std::vector<std::uint32_t> replicas;
};

/// One process's side of the collectives of its replicas. All functions take
/// the replicas' ids in the job.
/// @cost after one step, further steps with the same collectives allocate no
///       memory from the system.
class state_machine {
public:
  /// @errors throws std::logic_error if a process has no replica.
  explicit state_machine(local_placement placed);

  const local_placement& replica_placement() const { return placement_; }

  // -- calls of the local replicas --------------------------------------------

  /// Notes that a replica has left all older generations. The first call for a
  /// generation starts it and discards the pending operations of older
  /// generations.
  void begin_generation(std::uint32_t replica, std::uint64_t generation);

  /// True if calls of the replica take effect: the replica has begun the
  /// current generation, and no local replica has ended a step of this
  /// generation that was not drained.
  bool is_current(std::uint32_t replica) const;

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
  void release_zero_copy();

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
  const std::optional<protocol_error>& error() const { return error_; }

  /// Number of operations that have completed in all generations.
  std::uint64_t completed() const { return completed_; }

  // -- results ----------------------------------------------------------------

  /// Returns the sum. Empty handle: the sum is incomplete, or the replica is
  /// not current. All local replicas share the tensor; peers may read it until
  /// the step is drained.
  /// @errors throws std::logic_error if the replica did not contribute to the
  ///         bucket in this step.
  tensor sum_of(std::uint32_t replica, std::uint32_t bucket) const;

  /// Returns the gathered tensors by replica id. Empty: a tensor is missing, or
  /// the replica is not current.
  tensors gathered(std::uint32_t replica, std::uint32_t bucket) const;

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
    /// Number of chunks or gathered tensors that are not complete here; set
    /// when the operation starts. For an all-to-all bucket it also counts each
    /// peer to which this process has packets left to send.
    std::uint32_t remaining = 0;
    tensors inputs;   ///< Contributions of the local replicas.
    tensor output;    ///< The sum. Unused by a gather.
    tensors gathered; ///< Gathered tensors by replica id.
  };
  /// Position of a packet in a queue. `j` and `i` are indices, from 0, within
  /// the operation. Their meaning depends on the packet:
  ///   contribution to a sum by tree
  ///                j: index of the chunk among the chunks that the receiver
  ///                adds
  ///                i: index of the subtree among the subtrees that the sender
  ///                hosts
  ///   result of a sum by tree
  ///                j: index of the chunk among the chunks that the sender adds
  ///                i: always 0
  ///   gather       j: index of the replica among the replicas of the sender
  ///                i: index of the piece of the replica's tensor
  ///   sum by ring  j: index of the group of chunks (`ring`)
  ///                i: index of the hop in the group
  struct cursor {
    /// Number of the operation, counted from 0 in each generation.
    std::uint64_t operation_number = 0;
    std::uint32_t j = 0;
    std::uint32_t i = 0;

    auto operator<=>(const cursor&) const = default;
  };
  /// State of one queue from one peer.
  struct receive_state {
    cursor next;        ///< Position of the packet that is expected next.
    packet_header last; ///< Header of the last popped packet.
    /// Destination of a copy that is in progress. Empty: none.
    std::span<std::byte> destination;
    tensor destination_owner; ///< Keeps the tensor of `destination` alive.
    bool received = false;    ///< The copy of the front packet is complete.
    /// True if all contributions of the peer to a chunk have arrived. The last
    /// one is then the front packet. It is popped after the chunk has been
    /// added.
    bool chunk_arrived = false;
    gather_spec spec{}; ///< Receives a gathered tensor's first piece.
  };
  struct peer_state {
    receive_state contributions, results;
    cursor contributions_out, results_out;
  };
  struct local_replica_state {
    std::uint64_t generation = 0, step = 0;
    /// Number of the replica's first operation in the step.
    std::uint64_t first = 0;
    /// Number of the operation that the replica calls next.
    std::uint64_t next = 0;
    /// Highest bucket number and highest gather number that the replica used in
    /// the step. -1: none.
    std::array<std::int64_t, 2> highest{-1, -1};
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
  bool aborted_ = false; ///< A local replica ended a step that was not drained.
  std::optional<protocol_error> error_;
  pooled<local_replica_state> local_replicas_;
  pooled<operation> operations_;
  std::uint64_t base_ = 0;  ///< Number of the first operation in `operations_`.
  std::uint64_t ready_ = 0; ///< All operations with lower numbers have started.
  /// All operations with lower numbers are complete.
  std::uint64_t complete_ = 0;
  std::uint64_t completed_ = 0;
  /// State by process. The entry of this process is unused.
  std::vector<peer_state> peers_;
  cursor next_to_add_; ///< Position of the next chunk that this process adds.
  /// By process: the result of `subtrees_of`.
  std::vector<std::vector<replica_range>> subtrees_;
  /// By replica r: the replicas [r, range_end_[r]) have one process, and the
  /// next one has another.
  std::vector<std::uint32_t> range_end_;
  /// Receive buffers for contributions. The index is the first replica of the
  /// subtree that the contribution sums. Empty: not used yet.
  std::vector<tensor> scratch_;
  /// Payloads of the contributions that have arrived for the next chunk to add.
  /// The index is the first replica of the subtree that the contribution sums.
  std::vector<const std::byte*> leaves_;
  tensor discard_buffer_;
  /// Peers may still read tensors of this process.
  bool zero_copy_pending_ = false;
  /// Tensors that no operation needs any more, but that peers may still read.
  tensors zero_copy_tensors_;
};

} // namespace troupe::collective
