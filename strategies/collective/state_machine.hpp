#pragma once

#include "troupe/strategies/collective/packet.hpp"
#include "troupe/strategies/collective/ring.hpp"

#include <optional>
#include <string>
#include <vector>

/// Sums and gathers among processes, each of which hosts some of the replicas.
/// This is the side of one process.
///
///   who      P processes; process p hosts replicas [first[p], first[p+1])
///   messages contribution: sum of one chunk over a whole subtree of the
///            sender's replicas
///            result: sum of one chunk over all replicas
///            gather: one replica's tensor, in pieces
///   start    with a generation; then each replica begins and ends steps
///   on contribute  by all local replicas: the k-th collective of the step
///            starts. Chunk c is added by process (k + c) mod P. Every other
///            process sends it one contribution per maximal subtree of the
///            canonical tree that covers its replicas. For a small (all-to-all)
///            bucket every process sends its contributions to all others, and
///            every process adds them itself
///   on contribution  when all contributions to a chunk, own ones included,
///            have arrived: add them in tree order, keep the result and send it
///            to all others
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
///            newer than what has started here -> stays in the queue
///            unexpected collective, size, type or chunk -> protocol error that
///            names the received and the expected packet
///            a replica ends a step before its packets are sent -> no packet
///            moves for the rest of the generation
///
/// This is the tree algorithm. A collective whose options say so uses a ring
/// instead (ring.hpp), over the same queues.
namespace troupe::exchange {

/// A peer violated the protocol.
struct fault {
  std::uint32_t process = 0; ///< Process that sent an unexpected packet.
  std::string why;           ///< For people.
};

/// Missing inputs of the first incomplete collective.
struct lack {
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
class machine {
public:
  /// @errors throws std::logic_error if a process has no replica.
  explicit machine(layout at);

  const layout& at() const { return at_; }

  // -- calls of the local replicas --------------------------------------------

  /// Notes that a replica has left all older generations. The first call for a
  /// generation starts it and discards everything that is pending in an older
  /// one.
  void seat(std::uint32_t replica, std::uint64_t epoch);

  /// True if the calls of a replica take effect: it has begun the current
  /// generation, and no local replica has ended a step of it too early.
  bool current(std::uint32_t replica) const;

  /// Begins a step. Its number must be higher than that of the last step in
  /// this generation.
  void enter(std::uint32_t replica, std::uint64_t step);

  /// Ends the step. If the step is not drained, the generation ends here, and
  /// no code of this process reads any replica's tensors any more. Tensors that
  /// were sent without a copy are kept until `release_zero_copy`.
  void leave(std::uint32_t replica);

  /// Releases the tensors that were sent without a copy. @pre no peer reads
  /// them any more.
  void given_back();

  /// Contributes a tensor of float32 or float64 to a sum. The tensor must not
  /// change until the sum is known. Ignored if the replica is not current.
  /// @errors throws std::logic_error if another local replica contributed
  ///         something different to this operation, or if this replica already
  ///         contributed to the bucket.
  void contribute(std::uint32_t replica, std::uint32_t bucket,
                  const tensor& part, const terms& said = {},
                  room of_sum = room::own);

  /// Contributes a tensor of any shape and type to a gather; the tensor is
  /// copied. The algorithm in the options is ignored. Ignored if the replica is
  /// not current.
  /// @errors throws std::logic_error under the conditions of `contribute`, and
  ///         if the tensor has more than `max_gather_bytes`.
  void gather(std::uint32_t replica, std::uint32_t bucket, const tensor& part,
              const terms& said = {});

  // -- progress ---------------------------------------------------------------

  /// Moves at most one packet per queue, and adds at most one chunk.
  /// @returns true if anything moved.
  bool pump(courier& by);

  /// The first protocol violation of a peer in this generation. Empty: none.
  const std::optional<fault>& wrong() const { return wrong_; }

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
  bool complete(std::uint32_t replica) const;
  /// True if, in addition, all packets to peers for these operations were
  /// passed to the transport.
  bool settled(std::uint32_t replica) const;
  /// @returns the bucket of the first incomplete operation. Zero if none is
  ///          incomplete or the replica is not current.
  std::uint32_t incomplete(std::uint32_t replica) const;

  /// @returns the missing inputs of the first incomplete operation of a step.
  ///          If all are complete, it names a peer that has not accepted its
  ///          packets. Peers that still read zero-copy buffers are known only
  ///          to the transport.
  std::optional<lack> lacking(std::uint64_t step) const;

private:
  /// One collective of a step.
  struct record {
    /// `contribution`: a sum. `gather_contribution`: a gather.
    subject what = subject::part;
    std::uint64_t step = 0;   ///< Step that the operation belongs to.
    std::uint32_t k = 0;      ///< Index in the step, from 0.
    std::uint32_t bucket = 0; ///< Bucket of the sum, or number of the gather.
    std::uint32_t opener = 0; ///< Replica that called the collective first.
    terms said;
    tensor_spec spec; ///< Spec of the bucket. Unused by a gather.
    cut chunks;       ///< Chunks of the bucket. Unused by a gather.
    room of_sum = room::own;
    bool begun = false; ///< All local replicas have contributed.
    /// Once started: chunks or gathered tensors to come.
    std::uint32_t left = 0;
    tensors own;  ///< Contributions of the local replicas.
    tensor whole; ///< The sum. Unused by a gather.
    tensors all;  ///< Gathered tensors by replica id.
  };
  /// Position of the next packet of a queue. For a sum by tree: `j`-th chunk of
  /// its adder, `i`-th subtree. For a gather: `j`-th replica of the sender,
  /// `i`-th piece. For a ring: `j`-th group of chunks, `i`-th hop.
  struct place {
    /// Operation number, counted over the generation.
    std::uint64_t record = 0;
    std::uint32_t j = 0;
    std::uint32_t i = 0;

    auto operator<=>(const place&) const = default;
  };
  /// State of one incoming queue of one peer.
  struct incoming {
    place next;  ///< The expected packet.
    parcel last; ///< The last packet that was popped.
    /// Destination of a copy that is in progress. Empty: none.
    std::span<std::byte> into;
    tensor keep;          ///< Keeps the tensor of `destination` alive.
    bool fetched = false; ///< The copy is complete.
    /// The front packet is the last contribution to a chunk; it is popped after
    /// the addition.
    bool here = false;
    share_spec spec{}; ///< Spec of the gathered tensor.
  };
  struct peer {
    incoming parts, sums;
    place parts_out, sums_out;
  };
  struct member {
    std::uint64_t epoch = 0, step = 0;
    std::uint64_t first = 0; ///< Number of its first operation in the step.
    std::uint64_t next = 0;  ///< Number of its next operation.
    /// Highest bucket and highest gather of the step.
    std::array<std::int64_t, 2> highest{-1, -1};
    bool inside = false;
  };
  enum class verdict { due, old, later, wrong };

  // state_machine.cpp: calls of the replicas, and results
  void open(std::uint64_t epoch);
  void discard_rest(incoming& x, std::size_t bytes);
  member& of(std::uint32_t replica);
  const member& of(std::uint32_t replica) const;
  record& next_record(std::uint32_t replica, subject what, std::uint32_t bucket,
                      const tensor& part, const terms& said);
  const record* find(const member& m, subject what, std::uint32_t bucket) const;
  void begin_ready();
  void begin(record& x);
  void kept(record& x);
  void ended();
  void trim();
  void let_go(record& x);
  record& at(std::uint64_t number) { return records_[number - base_]; }
  const record& at(std::uint64_t number) const {
    return records_[number - base_];
  }
  std::uint32_t mine() const { return at_.first[at_.me]; }
  std::uint32_t locals() const { return at_.count(at_.me); }

  // schedule.cpp: which packet comes next
  bool next_part(place& x, std::uint32_t from, std::uint32_t to) const;
  bool next_sum(place& x, std::uint32_t from, std::uint32_t to) const;
  bool next_added(place& x) const;
  std::uint32_t chunk_of(const record& x, std::uint32_t adder,
                         std::uint32_t j) const;
  bool has_chunk(const record& x, std::uint32_t adder, std::uint32_t j) const;
  parcel about(const record& x, subject what, std::uint32_t from) const;
  parcel about_part(const place& x, std::uint32_t from, std::uint32_t to) const;
  parcel about_sum(const place& x, std::uint32_t from) const;
  std::span<std::byte> bytes_of(const record& x, const tensor& in,
                                std::uint32_t chunk) const;
  std::optional<lack> owed(std::uint64_t step) const;
  static std::string named(const parcel& x);
  std::string difference(const parcel& got, const parcel& due) const;

  // sender.cpp: sending
  bool send_part(courier& by, std::uint32_t to);
  bool send_piece(courier& by, std::uint32_t to, const parcel& x);
  bool send_sum(courier& by, std::uint32_t to);
  void fold_own(const record& x, range of, std::uint32_t chunk,
                std::span<std::byte> into);

  // receiver.cpp: receiving and adding
  bool take_sum(courier& by, std::uint32_t from);
  bool take_part(courier& by, std::uint32_t from);
  bool take_share(courier& by, std::uint32_t from, const parcel& due);
  verdict judge(courier& by, std::uint32_t from, queue q, const parcel* due);
  bool sized(courier& by, std::uint32_t from, queue q, std::size_t bytes);
  bool aligned(std::uint32_t from, const std::byte* at, dtype type);
  bool fetch(courier& by, std::uint32_t from, queue q,
             std::span<std::byte> into, const tensor& keep);
  void pop(courier& by, std::uint32_t from, queue q);
  bool drop(courier& by, std::uint32_t from, queue q);
  bool add(courier& by);
  void fold(record& x, std::uint32_t chunk);
  void blame(std::uint32_t process, std::string why);

  // ring_schedule.cpp: the ring
  bool rings(const record& x) const;
  ring ring_of(const record& x) const { return {at_.processes(), x.k}; }
  std::uint32_t before_me() const {
    return (at_.me + at_.processes() - 1) % at_.processes();
  }
  bool next_hop(place& x, subject what, std::uint32_t from,
                std::uint32_t to) const;
  std::uint32_t chunk_at(const place& x, subject what,
                         std::uint32_t from) const;
  bool send_part_on(courier& by, std::uint32_t to, const parcel& what);
  bool may_send_sum(const place& x) const;
  bool take_part_on(courier& by, std::uint32_t from, const parcel& due);
  bool part_is_sent(const place& sum, std::uint32_t chunk) const;
  void add_own(const record& x, std::uint32_t chunk,
               std::span<const std::byte> theirs, std::span<std::byte> into);
  std::vector<std::uint32_t> silent_in_ring(const record& x) const;

  incoming& in(std::uint32_t from, queue q) {
    return q == queue::parts ? peers_[from].parts : peers_[from].sums;
  }

  layout at_;
  std::uint64_t epoch_ = 0;
  bool over_ = false; ///< A replica ended a step too early.
  std::optional<fault> wrong_;
  pooled<member> members_;
  pooled<record> records_;
  std::uint64_t base_ = 0;     ///< Number of the first operation that is kept.
  std::uint64_t ready_ = 0;    ///< Operations before it have started.
  std::uint64_t complete_ = 0; ///< Operations before it are complete.
  std::uint64_t completed_ = 0;
  /// By process; the entry of this process is unused.
  std::vector<peer> peers_;
  place added_;                              ///< The next chunk to add here.
  std::vector<std::vector<range>> subtrees_; ///< Maximal subtrees by process.
  std::vector<std::uint32_t> owners_;        ///< Hosting process by replica.
  /// Receive buffers, by the first replica of a subtree. Empty if unused.
  std::vector<tensor> scratch_;
  /// Arrived contributions, by the first replica of their subtree.
  std::vector<const std::byte*> leaves_;
  tensor trash_;
  bool lent_ = false; ///< Peers may still read tensors of this process.
  tensors kept_;      ///< Tensors that only peers may still read.
};

} // namespace troupe::exchange
