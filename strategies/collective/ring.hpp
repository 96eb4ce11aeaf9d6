#pragma once

#include <cstdint>

/// Sum over a ring of processes: reduce-scatter, then all-gather, cut into
/// chunks. It is one algorithm of `collective::state_machine`, which provides
/// the queues, the protocol errors and the report of missing inputs.
///
///   who      P processes; each sends only to the next one, (p + 1) mod P
///   messages contribution: sum of a chunk over the processes from the chunk's
///            first process to the sender
///            result: sum of a chunk over all processes
///   start    as every collective of the state machine
///   on contribute  by all local replicas: their sum in tree order is this
///            process's own contribution. Chunk c of the step's k-th collective
///            is first sent by process (k + c) mod P
///   on contribution  add the own contribution to it, in the memory of the
///            result. The last process of the chunk keeps the sum and sends it
///            as the result; every other process forwards it
///   on result  keep it; forward it, unless the next process is the one that
///            sent the result first
///   end      when all chunks are kept and sent
///   cost     2 (P-1)/P of a bucket out of and into each process, 2 (P-1) hops;
///            R - 1 additions per element; no memory besides the result
///   order    ((own of first + own of next) + ...) + own of last, where "first"
///            is (k + c) mod P. The bits depend on P and on the placement, but
///            are equal in all processes. In each queue chunks travel in groups
///            of P, within a group in order of hops
///   faults   as in state_machine.hpp. A result that arrives before its
///            contribution was forwarded -> protocol error
namespace troupe::collective {

/// Schedule of the chunks of one collective. P >= 2.
struct ring {
  std::uint32_t processes = 2; ///< P.
  std::uint32_t sequence = 0;  ///< Index k of the collective in its step.

  std::uint32_t next(std::uint32_t process) const {
    return (process + 1) % processes;
  }
  std::uint32_t previous(std::uint32_t process, std::uint32_t hops = 1) const {
    return (process + processes - hops) % processes;
  }
  /// @returns the number of times that a chunk's contribution is sent; its
  ///          result is sent as often.
  std::uint32_t hops() const { return processes - 1; }

  /// @returns the process that sends a chunk first.
  std::uint32_t first_of(std::uint32_t chunk) const {
    return (sequence % processes + chunk % processes) % processes;
  }
  /// @returns the process that adds to a chunk last and sends its result first.
  std::uint32_t last_of(std::uint32_t chunk) const {
    return previous(first_of(chunk));
  }
  /// @returns the hop in which a process sends the contribution of a chunk;
  ///          `hops()` for the last process.
  std::uint32_t hop_of(std::uint32_t chunk, std::uint32_t process) const {
    return previous(process, first_of(chunk));
  }
  /// @returns the chunk of a group whose contribution a process sends in a hop.
  ///          The index may lie beyond the bucket's last chunk.
  std::uint32_t contribution_at(std::uint32_t group, std::uint32_t hop,
                                std::uint32_t process) const {
    return group * processes
           + previous(previous(process, hop), sequence % processes);
  }
  /// @returns the chunk of a group whose result a process sends in a hop. The
  ///          index may lie beyond the bucket's last chunk.
  std::uint32_t result_at(std::uint32_t group, std::uint32_t hop,
                          std::uint32_t process) const {
    return contribution_at(group, hop, next(process));
  }
};

} // namespace troupe::collective
