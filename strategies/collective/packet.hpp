#pragma once

#include "troupe/strategies/collective_options.hpp"
#include "troupe/tensors/tensor.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// What processes say in an exchange (exchange.hpp), and through what.

namespace troupe::exchange {

/// Who holds which replicas.
struct layout {
  std::vector<std::uint32_t> first; ///< [P + 1], ascending from 0.
  std::uint32_t me = 0;             ///< This process, in [0, P).

  std::uint32_t processes() const {
    return static_cast<std::uint32_t>(first.size() - 1);
  }
  std::uint32_t replicas() const { return first.back(); }
  std::uint32_t count(std::uint32_t process) const {
    return first[process + 1] - first[process];
  }
  /// Whose a replica is.
  std::uint32_t process_of(std::uint32_t replica) const;
};

/// Where a sum goes: memory of its own, or where the part lies, if nobody else
/// here brings one and nobody reads the part once there is a sum.
enum class room : std::uint8_t { own, of_part };

/// Replicas [begin, end).
struct range {
  std::uint32_t begin = 0, end = 0;

  friend bool operator==(const range&, const range&) = default;
};

/// The whole subtrees of the canonical tree over all replicas that a process's
/// replicas are made of, the largest possible ones, in order.
std::vector<range> subtrees_of(const layout& x, std::uint32_t process);

/// Most bytes of a parcel.
inline constexpr std::size_t most_bytes = std::size_t{256} * 1024;

/// Most bytes of a share of a gather.
inline constexpr std::size_t most_share = std::size_t{1} << 30;

/// How a bucket is cut into chunks.
struct cut {
  std::size_t each = 0;    ///< Elements, but of the last one.
  std::uint32_t count = 0; ///< None of an empty bucket.
  bool direct = false;     ///< One chunk that everybody adds himself.

  friend bool operator==(const cut&, const cut&) = default;
};

/// The same in all processes: a chunk is at most `most_bytes`, begins at a
/// multiple of 64 bytes, and is small enough that copying, adding and sending
/// of several overlap.
cut cut_of(std::size_t elements, dtype type, std::uint32_t processes,
           terms::ways way = terms::ways::tree);

enum class subject : std::uint8_t { part, sum, share };

/// What the bytes of a parcel are: its head.
struct parcel {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::uint64_t elements = 0; ///< Of the bucket; of a share 0.
  std::uint32_t exchange = 0; ///< Of the step, from 0.
  std::uint32_t bucket = 0;
  std::uint32_t chunk = 0; ///< Of a share: piece; 0 is its spec.
  std::uint32_t from = 0;  ///< Process.
  /// Replicas that are in it; around a ring from `begin` on to before `end`.
  std::uint32_t begin = 0, end = 0;
  subject what = subject::part;
  dtype type = dtype::float32; ///< Of a share float32.
  terms::ways way = terms::ways::tree;
  std::uint8_t zero = 0;
  std::uint32_t timeout = 0;        ///< As the call's terms say.
  std::uint64_t bytes_per_pack = 0; ///< Likewise.

  terms said() const { return {way, timeout, bytes_per_pack}; }

  friend bool operator==(const parcel&, const parcel&) = default;
};

using head = std::array<std::byte, 64>;
head write(const parcel& x);
/// Any bytes will do: the caller compares it with what is due.
parcel read(const head& x);

/// The first piece of a share: rank, dtype, and 8 extents.
using share_spec = std::array<std::byte, 72>;
share_spec write(const tensor_spec& x);
/// @returns whether it is the spec of a tensor of at most `most_share` bytes.
bool read(const share_spec& x, tensor_spec& into);

enum class queue : std::uint8_t { parts, sums };

/// Queues of parcels to and from the other processes, as the machine sees them.
/// Never blocks. A mirror of net's lanes (net/lanes/lane.hpp) that knows no
/// sockets.
class courier {
public:
  virtual ~courier() = default;

  /// Where the next parcel's bytes may be written: `most_bytes` long, aligned
  /// to 64; empty if there is no room now. The same until `post`.
  virtual std::span<std::byte> room(std::uint32_t to, queue by) = 0;
  /// Sends the first bytes of the room. @pre `room` was not empty.
  virtual void post(std::uint32_t to, queue by, const head& x,
                    std::size_t bytes) = 0;
  /// @returns false if there is no room now.
  virtual bool post(std::uint32_t to, queue by, const head& x,
                    std::span<const std::byte> bytes) = 0;

  /// Sends bytes from where they lie, if it can: they must not change until all
  /// that was sent is known to be out of this process's hands.
  /// @returns false as `post`.
  virtual bool lend(std::uint32_t to, queue by, const head& x,
                    std::span<const std::byte> bytes) {
    return post(to, by, x, bytes);
  }

  /// The head of the oldest parcel that was not popped, or null.
  virtual const head* front(std::uint32_t from, queue by) = 0;
  virtual std::size_t front_bytes(std::uint32_t from, queue by) = 0;
  /// Its bytes where they lie, until `pop`; empty if they must be fetched.
  virtual std::span<const std::byte> view(std::uint32_t from, queue by) = 0;
  /// Copies its bytes. As long as it returns false, the caller asks again; if
  /// it passes another place, the bytes that have come are not moved there.
  virtual bool fetch(std::uint32_t from, queue by,
                     std::span<std::byte> into) = 0;
  virtual void pop(std::uint32_t from, queue by) = 0;
};

} // namespace troupe::exchange
