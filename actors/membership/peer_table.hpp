#pragma once

#include "troupe/net/io/stream.hpp"
#include "troupe/net/session/connection.hpp"
#include "troupe/strategies/membership/messages.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe {

/// Purposes of the lanes between two processes of a job, by number of the lane.
/// The first are those of the collectives, by `collective::lane_id`.
inline constexpr std::array lane_purposes{"contributions", "results"};

/// What a process knows of its job: the membership actor writes it, and the
/// thread that joins and leaves and the status service read it. It also holds
/// the streams from which lanes are made.
class peer_table {
public:
  /// Control connection to another process. Before the first view, a
  /// participant has only the one to the leader.
  struct peer_entry {
    /// Null: the process has not connected.
    std::shared_ptr<net::connection> connection;
    /// Incarnation that the other process drew at its start.
    std::uint64_t incarnation = 0;
    bool has_left = false; ///< It has left, or knows that this process leaves.
    /// How and why the connection has ended. None: it is open.
    std::optional<std::pair<net::close_reason, std::string>> closed;
  };
  using clock = std::chrono::steady_clock;
  /// Task and incarnation of the other process, and the stream's purpose.
  using stream_id = std::tuple<std::uint32_t, std::uint64_t, std::string>;

  explicit peer_table(std::size_t task_count) : entries(task_count) {}

  /// Waits until `done` returns true or the deadline has passed. Calls `done`
  /// with the lock held.
  /// @returns false if the deadline has passed and `done` returns false.
  template <class F>
  bool wait(std::unique_lock<std::mutex>& hold, clock::time_point deadline,
            F&& done) {
    return changed.wait_until(hold, deadline, std::forward<F>(done));
  }

  /// Changes the table and wakes the threads that wait for a change.
  template <class F>
  void update(F&& change) {
    const std::lock_guard hold{lock};
    change();
    changed.notify_all();
  }

  std::mutex lock;
  std::condition_variable changed;
  std::vector<peer_entry> entries; ///< By task.
  /// Authenticated streams from which no lanes were made yet.
  std::map<stream_id, std::unique_ptr<net::stream>> streams;
  /// The current membership. Its id is zero until the first one is agreed on.
  membership::view view;
  /// Why the job cannot begin. None: the start has not failed.
  std::optional<failure_report> failed;
  /// `started`: the job has begun. `may_close`: this process has left, and its
  /// connections may be closed.
  bool started = false, may_close = false;
};

} // namespace troupe
