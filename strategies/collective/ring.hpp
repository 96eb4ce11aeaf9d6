#pragma once

#include <cstdint>

/// A sum around the ring of processes: reduce-scatter, then all-gather, cut
/// into chunks. One of the ways of exchange.hpp's machine, which has the verbs,
/// queues, faults and blame of it.
///
///   who      P processes; each speaks to the next, (p + 1) mod P, alone
///   says     part: what the processes from the first of a chunk to this one
///            sum up to
///            sum: a chunk over all processes
///   opens    as all exchanges of the machine
///   on contribute  from all replicas here: what they sum up to in tree order
///   is
///            this process's own. Chunk c of the step's k-th exchange is first
///            sent by process (k + c) mod P
///   on part  add the own to it, where the sum will lie; who is last of the
///            chunk keeps it, and sends it as its sum; all others send it on
///   on sum   keep it; send it on, unless the next one had it first
///   ends     when all chunks are kept and sent
///   costs    2 (P-1)/P of a bucket out of and into each process, 2 (P-1) hops.
///            R - 1 additions an element, and no memory beside the sum
///   order    ((own of first + own of next) + ...) + own of last, "first" being
///            (k + c) mod P: the bits depend on P, and on who sits where, but
///            are the same for all. In each queue chunks go in groups of P, of
///            a group in order of hop
///   if       as in exchange.hpp; a sum before its part was sent on -> fault
namespace troupe::exchange {

/// The way of the chunks of one exchange; P >= 2.
struct ring {
  std::uint32_t processes = 2; ///< P.
  std::uint32_t exchange = 0;  ///< k.

  std::uint32_t next(std::uint32_t process) const {
    return (process + 1) % processes;
  }
  std::uint32_t before(std::uint32_t process, std::uint32_t hops = 1) const {
    return (process + processes - hops) % processes;
  }
  /// Of parts, and of sums: a chunk is sent so often.
  std::uint32_t hops() const { return processes - 1; }

  /// Who sends a chunk first.
  std::uint32_t first_of(std::uint32_t chunk) const {
    return (exchange % processes + chunk % processes) % processes;
  }
  /// Who adds to it last, and sends its sum first.
  std::uint32_t last_of(std::uint32_t chunk) const {
    return before(first_of(chunk));
  }
  /// The hop in which a process sends a chunk's part; `hops()` if it is last.
  std::uint32_t hop_of(std::uint32_t chunk, std::uint32_t process) const {
    return before(process, first_of(chunk));
  }
  /// The chunk of a group whose part (whose sum) a process sends in a hop; it
  /// may be beyond the bucket's last.
  std::uint32_t part_at(std::uint32_t group, std::uint32_t hop,
                        std::uint32_t process) const {
    return group * processes
           + before(before(process, hop), exchange % processes);
  }
  std::uint32_t sum_at(std::uint32_t group, std::uint32_t hop,
                       std::uint32_t process) const {
    return part_at(group, hop, next(process));
  }
};

} // namespace troupe::exchange
