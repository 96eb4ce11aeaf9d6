#pragma once

#include "troupe/strategies/collective/packet.hpp"
#include "troupe/strategies/collective/ring.hpp"

#include <optional>
#include <string>
#include <vector>

/// Sums and gathers among processes, each of which holds some of the replicas.
/// This is one process's side.
///
///   who      P processes; process p holds replicas [first[p], first[p+1])
///   says     part: what a whole subtree of a process's replicas sums up to, of
///            one chunk
///            sum: a chunk over all replicas
///            share: one replica's part of a gather, in pieces
///   opens    with a seat of an epoch; then each replica enters step by step
///   on contribute  from all replicas here: the k-th exchange of the step may
///            go; chunk c of it is added by process (k + c) mod P, everybody
///            else sends it one part for each whole subtree of the canonical
///            tree that his replicas are. Of what is small everybody is sent
///            all parts, and adds them himself
///   on part  when all of a chunk are there, and the own ones: add in tree
///            order, keep it, send the sum to all others
///   on sum   keep it
///   on share keep it; its first piece says how large it is
///   ends     when all chunks of all exchanges are kept and sent
///   costs    2 (P-1)/P of a bucket out of and into each process, two hops; of
///            a small one P-1 buckets and one hop. R - 1 additions an element
///   order    all replicas make the same exchanges in the same order; chunks
///            go in order, parts (and shares) and sums each in a queue of their
///            own. The sum is tree_sum.hpp's, to the last bit
///   if       older epoch or step, or the last parcel again -> ignored
///            newer than what is begun here                 -> left where it is
///            another exchange, size, type or chunk than is due -> fault, with
///                                                    the names of both
///            a replica leaves a step that is not settled   -> nothing moves
///                                                    any more in this epoch
///
/// That is the way of the tree; an exchange whose terms say so goes around a
/// ring instead (ring.hpp), in the same queues.
namespace troupe::exchange {

/// Somebody broke a rule.
struct fault {
  std::uint32_t process = 0; ///< Who sent what was not due.
  std::string why;
};

/// What the first exchange that does not end waits for.
struct lack {
  bool gather = false;
  std::uint32_t bucket = 0;
  std::vector<std::uint32_t> processes; ///< Ascending; may be this one.
  std::vector<std::uint32_t> replicas;  ///< Ascending; all of another process.
};

/// One process's side of the sums and gathers of its replicas, which are named
/// by their ids in the job. Once a step ran, the next of its kind asks the
/// system for nothing.
class machine {
public:
  /// @errors throws std::logic_error if a process has no replica.
  explicit machine(layout at);

  const layout& at() const { return at_; }

  // -- what the replicas here say ---------------------------------------------

  /// A replica has left all that is older than this epoch. The first one opens
  /// it: all that is under way of an older one is let go.
  void seat(std::uint32_t replica, std::uint64_t epoch);

  /// Whether what the replica says counts: it is of this epoch, and nobody has
  /// left a step of it too early.
  bool current(std::uint32_t replica) const;

  /// Enters a step, of a higher number than the last one of this epoch.
  void enter(std::uint32_t replica, std::uint64_t step);

  /// Leaves it. If it is not settled, the epoch ends here, and nobody here
  /// reads any replica's tensors any more. What was lent is kept until
  /// `given_back`.
  void leave(std::uint32_t replica);

  /// Nobody reads any more what was lent so far.
  void given_back();

  /// Brings a part of a sum, float32 or float64; it must not change until the
  /// sum is known. Ignored if the replica is not current.
  /// @errors throws std::logic_error if that is not what the other replicas
  ///         here brought at this place, or it brought this bucket already.
  void contribute(std::uint32_t replica, std::uint32_t bucket,
                  const tensor& part, const terms& said = {},
                  room of_sum = room::own);

  /// Brings a part of a gather, of any shape and type; copied. It knows no
  /// ways.
  void gather(std::uint32_t replica, std::uint32_t bucket, const tensor& part,
              const terms& said = {});

  // -- moving -----------------------------------------------------------------

  /// Moves at most one parcel a queue, and adds at most one chunk.
  /// @returns whether anything moved.
  bool pump(courier& by);

  /// Set for the rest of the epoch once somebody broke a rule.
  const std::optional<fault>& wrong() const { return wrong_; }

  /// Grows whenever an exchange completes.
  std::uint64_t completed() const { return completed_; }

  // -- what they get ----------------------------------------------------------

  /// The sum, one tensor for all replicas here and, until the step is settled,
  /// for others who still read it, or none while it is incomplete.
  /// @errors throws std::logic_error if the replica did not contribute to it in
  ///         this step.
  tensor sum_of(std::uint32_t replica, std::uint32_t bucket) const;

  /// All parts in order of replica, or none while some are missing.
  tensors gathered(std::uint32_t replica, std::uint32_t bucket) const;

  /// Whether all that the replica takes part in is complete.
  bool complete(std::uint32_t replica) const;
  /// Whether, beyond that, all that is owed to others for it went to the
  /// courier.
  bool settled(std::uint32_t replica) const;
  /// Bucket of the first incomplete exchange; 0 if none is, or if the replica
  /// is not current.
  std::uint32_t incomplete(std::uint32_t replica) const;

  /// What the first incomplete exchange of a step waits for; if all are
  /// complete, who does not take what is owed to him. Who has yet to read what
  /// was lent to him is not known here, but to the courier.
  std::optional<lack> lacking(std::uint64_t step) const;

private:
  /// One exchange of a step.
  struct record {
    subject what = subject::part; ///< part: a sum. share: a gather.
    std::uint64_t step = 0;
    std::uint32_t k = 0; ///< In the step.
    std::uint32_t bucket = 0;
    std::uint32_t opener = 0; ///< The replica that came first.
    terms said;
    tensor_spec spec; ///< Of a sum.
    cut chunks;       ///< Of a sum.
    room of_sum = room::own;
    bool begun = false;     ///< All replicas here brought their part.
    std::uint32_t left = 0; ///< Then: chunks, or shares, to come.
    tensors own;            ///< Parts, by replica of this process.
    tensor whole;           ///< Sum.
    tensors all;            ///< Gather: by replica.
  };
  /// The next parcel of a queue: of a record, the j-th chunk of its adder and a
  /// subtree, or the j-th replica of its process and a piece, or a group of
  /// chunks and a hop.
  struct place {
    std::uint64_t record = 0; ///< Counted over the epoch.
    std::uint32_t j = 0;
    std::uint32_t i = 0;

    auto operator<=>(const place&) const = default;
  };
  /// What comes in over one queue of one process.
  struct incoming {
    place next;
    parcel last;               ///< What was taken before.
    std::span<std::byte> into; ///< A fetch is under way.
    tensor keep;               ///< Where `into` lies, if in a tensor.
    bool fetched = false;      ///< It is over.
    bool here = false;         ///< The front is the last part of a chunk.
    share_spec spec{};
  };
  struct peer {
    incoming parts, sums;
    place parts_out, sums_out;
  };
  struct member {
    std::uint64_t epoch = 0, step = 0;
    std::uint64_t first = 0; ///< Record of its first exchange in the step.
    std::uint64_t next = 0;  ///< Record of its next exchange.
    std::array<std::int64_t, 2> highest{-1, -1}; ///< Buckets of the step.
    bool inside = false;
  };
  enum class verdict { due, old, later, wrong };

  // exchange.cpp: what the replicas say and get
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

  // exchange_order.cpp: which parcel comes next
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

  // exchange_out.cpp: sending
  bool send_part(courier& by, std::uint32_t to);
  bool send_piece(courier& by, std::uint32_t to, const parcel& x);
  bool send_sum(courier& by, std::uint32_t to);
  void fold_own(const record& x, range of, std::uint32_t chunk,
                std::span<std::byte> into);

  // exchange_in.cpp: receiving and adding
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

  // exchange_ring.cpp: around the ring
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
  bool over_ = false; ///< Somebody left too early.
  std::optional<fault> wrong_;
  pooled<member> members_;
  pooled<record> records_;
  std::uint64_t base_ = 0;     ///< Number of the first record kept.
  std::uint64_t ready_ = 0;    ///< Records before it are begun.
  std::uint64_t complete_ = 0; ///< Records before it are complete.
  std::uint64_t completed_ = 0;
  std::vector<peer> peers_; ///< By process; this one's is unused.
  place added_;             ///< The next chunk to add here.
  std::vector<std::vector<range>> subtrees_; ///< By process.
  std::vector<std::uint32_t> owners_;        ///< Process, by replica.
  std::vector<tensor> scratch_; ///< By first replica of a subtree, if needed.
  std::vector<const std::byte*> leaves_; ///< Likewise: a part that is here.
  tensor trash_;
  bool lent_ = false; ///< Others may still read something that is here.
  tensors kept_;      ///< Then: what only they need.
};

} // namespace troupe::exchange
