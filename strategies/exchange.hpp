#pragma once

#include "troupe/strategies/tree_sum.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

/// Sums and gathers among processes, each of which holds some of the replicas.
/// This is one process's side.
///
///   who      P processes; process p holds replicas [first[p], first[p+1])
///   says     part: what a process's replicas sum up to, of one chunk
///            sum: a chunk over all replicas
///            share: one replica's part of a gather, in pieces
///   opens    with an epoch and a step
///   on contribute  from all replicas here: the k-th exchange of the step may
///            go; chunk c of it is added by process (k + c) mod P, everybody
///            else sends it one part for each whole subtree of the canonical
///            tree that his replicas are
///   on part  when all of a chunk are there, and the own ones: add in tree
///            order, keep it, send the sum to all others
///   on sum   keep it
///   ends     when all chunks of all exchanges are kept and sent
///   costs    2 (P-1)/P of a bucket out of and into each process, two hops
///   order    all replicas make the same exchanges in the same order; chunks
///            go in order, parts and sums each in a queue of their own
///   if       older epoch or step                  -> ignored
///            newer                                -> left where it is
///            another exchange, size, type or chunk than is due -> fault, with
///                                                    the names of both
namespace troupe::exchange {

/// Who holds which replicas.
struct layout {
  std::vector<std::uint32_t> first; ///< [P + 1], ascending from 0.
  std::uint32_t me = 0;             ///< This process, in [0, P).

  std::uint32_t processes() const {
    return static_cast<std::uint32_t>(first.size() - 1);
  }
  std::uint32_t replicas() const { return first.back(); }
};

/// Queues of parcels to and from the other processes, as the machine sees them.
/// Never blocks. A mirror of net's lanes that knows no sockets.
class courier {
public:
  enum class queue : std::uint8_t { parts, sums };
  using head = std::array<std::byte, 64>;

  virtual ~courier() = default;
  virtual std::span<std::byte> room(std::uint32_t to, queue by) = 0;
  virtual void post(std::uint32_t to, queue by, const head& x,
                    std::size_t bytes) = 0;
  virtual bool post(std::uint32_t to, queue by, const head& x,
                    std::span<const std::byte> bytes) = 0;
  virtual const head* front(std::uint32_t from, queue by) = 0;
  virtual std::size_t front_bytes(std::uint32_t from, queue by) = 0;
  virtual std::span<const std::byte> view(std::uint32_t from, queue by) = 0;
  virtual bool fetch(std::uint32_t from, queue by,
                     std::span<std::byte> into) = 0;
  virtual void pop(std::uint32_t from, queue by) = 0;
};

} // namespace troupe::exchange
