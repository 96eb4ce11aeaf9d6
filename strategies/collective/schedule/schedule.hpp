#pragma once

#include "troupe/strategies/collective/queue_positions.hpp"

#include <optional>
#include <vector>

namespace troupe::collective {

/// Payload of a packet to send.
struct payload {
  enum class kind {
    copy,      ///< The transport copies `bytes` before `send` returns.
    zero_copy, ///< The receiver may read `bytes` until it has released them.
    sum,       ///< The sum of the chunk over `summands`, in tree order.
    spec       ///< The spec of the tensor `summands[0]`, as a `gather_spec`.
  };
  kind how = kind::copy;
  std::span<const std::byte> bytes{}; ///< Bytes of `copy` and `zero_copy`.
  std::span<const tensor> summands{}; ///< Summands of `sum` and `spec`.
};

/// What the receiver does with the payload of an expected packet.
struct destination {
  enum class kind {
    store,    ///< Copy it to `into`.
    spec,     ///< Allocate the gathered tensor of its spec.
    add,      ///< Write its sum with the local contributions to `into`.
    collect,  ///< Keep it until all contributions to the chunk have arrived.
    too_early ///< It is a protocol error: this process lacks what precedes it.
  };
  kind how = kind::store;
  std::size_t bytes = 0;     ///< Size that the payload must have.
  std::byte* into = nullptr; ///< Target of `store` and `add`.
  tensor* target = nullptr;  ///< Tensor of `into`; set by `spec`.
  /// True in the peer's last contribution, for `collect`.
  bool completes_chunk = false;
};

/// Plan of the packets of one operation. Each process can compute the plan of
/// every other process, so sender and receiver agree on the next packet of a
/// queue. A schedule has no state of its own: positions are arguments.
///
/// Three implementations: `tree_schedule` and `ring_schedule` for sums, and
/// `gather_schedule`.
class schedule {
public:
  virtual ~schedule() = default;

  /// Prepares an operation that all local replicas have called: cuts it into
  /// chunks, allocates its result and sets `remaining`.
  /// @errors throws std::bad_alloc; the operation is then unchanged or can be
  ///         prepared again.
  virtual void prepare(operation& op) const = 0;

  /// Moves `position` forward to a packet of the operation in this queue. Does
  /// not move if there is a packet at `position`.
  /// @returns false if the operation has no further packet in the queue.
  virtual bool find(const operation& op, cursor& position,
                    const queue_id& queue) const = 0;

  /// Sets the fields `chunk`, `begin` and `end` of the header of the packet at
  /// `position`. @pre `find` returned true for the position.
  virtual void label(packet_header& header, const operation& op,
                     const cursor& position, const queue_id& queue) const = 0;

  /// Returns the payload of a packet that this process sends. nullopt: it is
  /// not available yet.
  virtual std::optional<payload>
  payload_of(const operation& op, const cursor& position,
             const packet_header& header, const queue_id& queue,
             const queue_positions& positions) const = 0;

  /// Returns where the payload of an expected packet goes.
  virtual destination
  destination_of(operation& op, const cursor& position,
                 const packet_header& header, const queue_id& queue,
                 const queue_positions& positions) const = 0;

  /// Moves `position` past a packet that this process has sent or received.
  /// @returns true if this completes an item of `operation::remaining`.
  virtual bool advance(const operation& op, cursor& position,
                       const queue_id& queue) const = 0;

  /// Returns the processes whose inputs the operation waits for, ascending.
  /// Empty: none.
  /// @param number number of the operation; all earlier ones are complete.
  virtual std::vector<std::uint32_t>
  silent_processes(const operation& op, std::uint64_t number,
                   const queue_positions& positions) const = 0;
};

/// Returns the peers from which the next packet of a queue belongs to an
/// operation, ascending. If no contribution is missing: the peers whose results
/// are missing, because no result can arrive before the contributions.
std::vector<std::uint32_t> late_peers(std::uint64_t number,
                                      std::uint32_t processes,
                                      std::uint32_t rank,
                                      const queue_positions& positions);

} // namespace troupe::collective
