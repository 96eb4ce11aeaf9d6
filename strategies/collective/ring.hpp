#pragma once

#include <cstdint>

/// Sum over a ring of processes, chunk by chunk: reduce-scatter, then
/// all-gather. The ring is one algorithm of `collective::state_machine`, which
/// provides the queues, the protocol errors and the report of missing inputs.
///
///   who      P processes with R replicas in all; process p sends only to the
///            next one, (p + 1) mod P
///   messages contribution: sum of a chunk over the processes from the chunk's
///            first process to the sender
///            result: sum of a chunk over all processes
///   start    when all local replicas have contributed. Their sum in tree order
///            is the own contribution of this process. Process (k + c) mod P is
///            the first to send chunk c of the k-th collective of a step
///   on contribution  add the own contribution to the received one, in the
///            memory of the result. The last process of a chunk keeps the sum
///            and sends it as the result; every other process sends the
///            sum on as its contribution
///   on result  keep the result. Send it on, unless the next process is the
///            one that computed it
///   end      when all results are kept and all packets are sent
///   cost     each process sends and receives 2 (P-1)/P of a bucket, in 2 (P-1)
///            hops; R - 1 additions per element; no memory besides the result
///   order    own contributions are added one by one along the ring, from
///            process (k + c) mod P on. The bits depend on P and the placement,
///            but are equal in all processes. A queue carries one group of P
///            chunks after the other, and within a group one packet per hop, in
///            the order of the hops. The last group may have fewer chunks; a
///            hop without a chunk has no packet
///   faults   as in state_machine.hpp, and:
///            a result of a chunk arrives before this process has sent its
///            contribution to the chunk -> protocol error
namespace troupe::collective {

/// Schedule of the chunks of one collective. A group is P consecutive chunks,
/// where P is at least 2.
struct ring {
  std::uint32_t processes = 2; ///< P.
  std::uint32_t sequence = 0;  ///< Index k of the collective in its step.

  std::uint32_t next(std::uint32_t process) const {
    return (process + 1) % processes;
  }
  std::uint32_t previous(std::uint32_t process, std::uint32_t hops = 1) const {
    return (process + processes - hops) % processes;
  }
  /// Returns how many processes send a contribution to a chunk. The same number
  /// of processes send the chunk's result.
  std::uint32_t hops() const { return processes - 1; }

  /// Returns the process that sends a chunk first.
  std::uint32_t first_of(std::uint32_t chunk) const {
    return (sequence % processes + chunk % processes) % processes;
  }
  /// Returns the hop, from 0, in which a process sends the contribution to a
  /// chunk. `hops()` for the last process, which sends none.
  std::uint32_t hop_of(std::uint32_t chunk, std::uint32_t process) const {
    return previous(process, first_of(chunk));
  }
  /// Returns the index of the chunk whose contribution a process sends in a hop
  /// of a group. The index may lie beyond the last chunk of the bucket.
  std::uint32_t contribution_at(std::uint32_t group, std::uint32_t hop,
                                std::uint32_t process) const {
    return group * processes
           + previous(previous(process, hop), sequence % processes);
  }
  /// Returns the index of the chunk whose result a process sends in a hop of a
  /// group. The index may lie beyond the last chunk of the bucket.
  std::uint32_t result_at(std::uint32_t group, std::uint32_t hop,
                          std::uint32_t process) const {
    return contribution_at(group, hop, next(process));
  }
};

} // namespace troupe::collective
