#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

/// Maximum number of replicas of a job.
inline constexpr std::uint32_t max_replicas = 4096;

/// Replicas [begin, end).
struct replica_range {
  std::uint32_t begin = 0, end = 0;

  std::uint32_t size() const { return end - begin; }
  friend bool operator==(const replica_range&, const replica_range&) = default;
};

/// Says which process hosts which replicas. Each of the R replicas of a job has
/// one process. A process hosts any set of replicas, which may be empty.
class placement {
public:
  using id_list = std::vector<std::uint32_t>;

  /// One process hosts all replicas.
  explicit placement(std::uint32_t replicas = 1);

  /// @param replicas_by_process ids that each process hosts, in any order.
  /// @errors throws std::logic_error unless the lists contain each id in
  ///         [0, R) once, where R is the sum of their sizes.
  explicit placement(std::vector<id_list> replicas_by_process);

  /// Process p hosts the next `counts[p]` ids after those of process p - 1.
  static placement contiguous(const std::vector<std::uint32_t>& counts);

  std::uint32_t processes() const {
    return static_cast<std::uint32_t>(replicas_.size());
  }
  std::uint32_t replicas() const {
    return static_cast<std::uint32_t>(processes_.size());
  }

  /// @returns the ids that a process hosts, ascending.
  const id_list& replicas_of(std::uint32_t process) const {
    return replicas_[process];
  }
  /// @returns the maximal ranges of consecutive ids that a process hosts,
  ///          ascending.
  std::vector<replica_range> ranges_of(std::uint32_t process) const;

  /// @returns the process that hosts a replica.
  std::uint32_t process_of(std::uint32_t replica) const {
    return processes_[replica];
  }
  /// @returns the position of a replica in `replicas_of(process_of(replica))`.
  std::uint32_t index_of(std::uint32_t replica) const {
    return indices_[replica];
  }

  friend bool operator==(const placement&, const placement&) = default;

private:
  std::vector<id_list> replicas_;                  ///< By process, ascending.
  std::vector<std::uint32_t> processes_, indices_; ///< By replica.
};

/// The placement of a job as one of its processes sees it.
struct local_placement {
  placement job;
  std::uint32_t process = 0; ///< This process.

  /// @returns the ids of the replicas that this process hosts, ascending.
  const placement::id_list& replicas() const {
    return job.replicas_of(process);
  }
  std::uint32_t count() const {
    return static_cast<std::uint32_t>(replicas().size());
  }
  bool hosts(std::uint32_t replica) const {
    return replica < job.replicas() && job.process_of(replica) == process;
  }
  bool hosts_all() const { return count() == job.replicas(); }

  friend bool operator==(const local_placement&,
                         const local_placement&) = default;
};

} // namespace troupe
