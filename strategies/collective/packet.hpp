#pragma once

#include "troupe/strategies/collective_options.hpp"
#include "troupe/strategies/packet_codec.hpp"
#include "troupe/strategies/placement.hpp"
#include "troupe/strategies/spec_codec.hpp"
#include "troupe/tensors/tensor.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Packets that processes exchange in a collective (state_machine.hpp), and the
// interface of the transport that carries them.

namespace troupe::collective {

/// Memory that receives a sum. `separate`: a new tensor. `in_place`: the tensor
/// of the contribution; possible only if this process hosts one replica, and if
/// nothing reads the contribution after the sum exists.
enum class output_placement : std::uint8_t { separate, in_place };

/// Returns the largest subtrees of the canonical tree whose replicas are all
/// hosted by `process`. Their ranges are ascending, and together they cover all
/// replicas of the process.
std::vector<replica_range> subtrees_of(const placement& placed,
                                       std::uint32_t process);

/// Maximum size of a tensor contributed to a gather, in bytes.
inline constexpr std::size_t max_gather_bytes = std::size_t{1} << 30;

/// Describes how a bucket is cut into chunks.
struct chunking {
  /// Number of elements of a chunk; the last chunk may have fewer.
  std::size_t chunk_elements = 0;
  std::uint32_t count = 0; ///< Number of chunks. Zero for an empty bucket.
  /// The bucket is one chunk, and every process computes the whole sum itself.
  bool all_to_all = false;

  friend bool operator==(const chunking&, const chunking&) = default;
};

/// Computes the chunks of a bucket. The result is equal in all processes. A
/// chunk has at most `max_packet_bytes` and begins at a multiple of 64 bytes in
/// the bucket. It is small enough that copying, adding and sending of several
/// chunks overlap.
chunking chunking_of(std::size_t elements, dtype type, std::uint32_t processes,
                     collective_options::algorithm_kind algorithm =
                       collective_options::algorithm_kind::tree);

/// Kind of a packet. `contribution`: a partial sum of a chunk. `result`: the
/// complete sum of a chunk. `gather_contribution`: a piece of a gathered
/// tensor.
enum class packet_kind : std::uint8_t {
  contribution,
  result,
  gather_contribution
};

/// Header of a packet: identifies its payload.
struct packet_header {
  /// Number of an attempt to run steps. The chief increments it at each
  /// reconfiguration of the replicas.
  std::uint64_t generation = 0;
  /// Step number. Within a generation each step has a higher number than the
  /// step before.
  std::uint64_t step = 0;
  /// Number of elements of the whole bucket. Zero for a gather.
  std::uint64_t elements = 0;
  /// Index of the collective within the step, from 0. A replica increments it
  /// with each collective that it calls.
  std::uint32_t sequence = 0;
  /// Number of the bucket or of the gather; the caller of the collective
  /// chooses it.
  std::uint32_t bucket = 0;
  /// Index of the chunk in the bucket. For a gather: index of the piece; piece
  /// 0 is the spec of the tensor.
  std::uint32_t chunk = 0;
  std::uint16_t sender = 0; ///< Process that sends the packet.
  /// Belongs to the transport, which numbers the packets of each queue to
  /// notice if one is lost. The state machine sets and receives zero.
  std::uint16_t number = 0;
  /// Replicas whose contributions the payload includes: a subtree of the
  /// canonical tree, all replicas, or the replica of a gathered tensor. On a
  /// ring, the ends of a contribution identify it. `begin` is the lowest
  /// replica of the process that sent it first, and `end - 1` the highest
  /// replica of the sender.
  std::uint32_t begin = 0, end = 0;
  packet_kind kind = packet_kind::contribution;
  dtype type = dtype::float32; ///< Element type. `float32` for a gather.
  collective_options::algorithm_kind algorithm =
    collective_options::algorithm_kind::tree;
  std::uint8_t tensors = 0;         ///< `tensors` of the options.
  std::uint32_t timeout = 0;        ///< `timeout` of the options, in ms.
  std::uint64_t bytes_per_pack = 0; ///< `bytes_per_pack` of the options.

  collective_options options() const {
    return {algorithm, timeout, bytes_per_pack, tensors};
  }

  friend bool operator==(const packet_header&, const packet_header&) = default;
};

packet_header_bytes write(const packet_header& header);
/// Reads a header. Accepts any bytes: the caller compares the result with the
/// expected header.
packet_header read(const packet_header_bytes& bytes);

/// Returns a text that names the payload of a packet.
std::string describe(const packet_header& header);
/// Returns a text that says how a received packet differs from the expected
/// one, which belongs to another step, or to an equal call. "It" is the sender.
std::string describe_mismatch(const packet_header& received,
                              const packet_header& expected);

/// Payload of the first packet of a gathered tensor.
using gather_spec = spec_bytes;
gather_spec write(const tensor_spec& spec);
/// Sets `spec` and returns true if the bytes describe a tensor of at most
/// `max_gather_bytes`. Otherwise returns false.
bool read(const gather_spec& bytes, tensor_spec& spec);

/// Selects one of the two queues from one process to another. Gathered tensors
/// use the queue `contributions`.
enum class lane_id : std::uint8_t { contributions, results };
inline constexpr std::array lane_ids{lane_id::contributions, lane_id::results};

/// Queues of packets to and from the other processes, as the state machine sees
/// them. No function blocks. The interface mirrors the lanes of
/// net/lanes/lane.hpp but does not depend on sockets.
class packet_transport {
public:
  virtual ~packet_transport() = default;

  /// Returns a buffer for the payload of the next packet: `max_packet_bytes`
  /// bytes, aligned to 64 bytes. Empty: the queue is full. Until the next
  /// `send` to this queue, all calls for it return the same buffer.
  virtual std::span<std::byte> reserve(std::uint32_t peer, lane_id lane) = 0;
  /// Sends the first `bytes` bytes of the reserved buffer. @pre `reserve`
  /// returned a buffer.
  virtual void send(std::uint32_t peer, lane_id lane,
                    const packet_header_bytes& header, std::size_t bytes) = 0;
  /// Copies a payload into the queue. @returns false if the queue is full.
  virtual bool send(std::uint32_t peer, lane_id lane,
                    const packet_header_bytes& header,
                    std::span<const std::byte> bytes) = 0;

  /// Sends a payload without a copy if the transport can. The payload must not
  /// change until the receiver has released it.
  /// @returns false if the queue is full.
  virtual bool send_zero_copy(std::uint32_t peer, lane_id lane,
                              const packet_header_bytes& header,
                              std::span<const std::byte> bytes) {
    return send(peer, lane, header, bytes);
  }

  /// Returns the header of the front packet, the oldest that was not popped.
  /// Null: the queue is empty.
  virtual const packet_header_bytes* front(std::uint32_t peer,
                                           lane_id lane) = 0;
  /// Returns the payload size of the front packet, in bytes.
  virtual std::size_t front_bytes(std::uint32_t peer, lane_id lane) = 0;
  /// Returns the payload of the front packet in the transport's memory, valid
  /// until `pop`. Empty: the caller has to copy the payload with `read_into`.
  virtual std::span<const std::byte> view(std::uint32_t peer, lane_id lane) = 0;
  /// Copies the payload of the front packet to `destination`. Returns true when
  /// the copy is complete; until then the caller repeats the call. Bytes that
  /// an earlier call has copied are not copied again. So only a caller that
  /// discards the payload may pass another destination.
  virtual bool read_into(std::uint32_t peer, lane_id lane,
                         std::span<std::byte> destination) = 0;
  /// Returns true if the payload of the front packet cannot have changed while
  /// it was read. To be called after the payload was read, and before `pop`. If
  /// it returns false, the packet is lost, and `front` returns null.
  virtual bool is_intact(std::uint32_t peer, lane_id lane) = 0;
  /// Removes the front packet.
  virtual void pop(std::uint32_t peer, lane_id lane) = 0;
};

} // namespace troupe::collective
