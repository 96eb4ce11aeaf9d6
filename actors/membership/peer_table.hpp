#pragma once

#include "troupe/net/io/stream.hpp"
#include "troupe/net/session/connection.hpp"
#include "troupe/strategies/membership/rendezvous.hpp"

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

// -- protocol -----------------------------------------------------------------

/// Kind of a message on the membership channel between the leader and a member,
/// which is any other process. The numbers are a wire format: append, never
/// reuse.
enum class membership_message_kind : std::uint8_t {
  view = 0,  ///< Leader to member: all processes have joined; carries the view.
  ready = 1, ///< Member to leader: its lanes to all processes are open.
  start = 2, ///< Leader to member: all members are ready; the job has begun.
  abort = 3, ///< Either direction: the job cannot begin; carries the reason.
  leave = 4, ///< Member to leader: it leaves, or acknowledges `shutdown`.
  leave_ack = 5, ///< Leader to member: acknowledges `leave`.
  shutdown = 6,  ///< Leader to member: the job ends.
};

/// A message on the membership channel.
struct membership_message {
  membership_message_kind kind = membership_message_kind::leave_ack;
  std::string text; ///< Reason of an `abort`; else empty.
  /// The agreed view of a `view` message; else empty.
  rendezvous::membership_view view;
  auto fields() { return std::tie(kind, text, view); }
};

// -- state --------------------------------------------------------------------

/// Purposes of the lanes between two processes of a job, by number of the lane.
/// The first are those of the collectives, by `collective::lane_id`.
inline constexpr std::array lane_purposes{"contributions", "results"};

/// State of the job's start and end. The endpoint's thread, the thread that
/// joins and leaves, and the status service share it.
class peer_table {
public:
  /// Connection to another process, and its state.
  struct peer_entry {
    std::shared_ptr<net::connection> connection;
    std::shared_ptr<net::channel> channel; ///< The membership channel.
    /// Incarnation that the other process drew at its start.
    std::uint64_t incarnation = 0;
    /// Number of the last message that this process sent on the channel.
    std::uint64_t last_tag = 0;
    /// `is_ready`: the other process has sent `ready`. `has_left`: it has left,
    /// or has acknowledged that this process leaves.
    bool is_ready = false, has_left = false;
    /// How and why the channel closed. None: the channel is open.
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

  /// Sends a message. No effect if the channel is not open.
  /// @pre the lock is held.
  void send(peer_entry& peer, membership_message message);

  /// Returns true if the job can no longer begin, because a process has aborted
  /// the start or a channel has closed. @pre the lock is held.
  bool failed() const;

  std::mutex lock;
  std::condition_variable changed;
  /// State machine that admits processes. None except in the leader.
  std::optional<rendezvous::state_machine> admission_state;
  /// By task. Processes other than the leader use only the leader's entry.
  std::vector<peer_entry> entries;
  /// By task: reason why the leader last rejected a process that asked for the
  /// task.
  std::map<std::uint32_t, std::string> rejections;
  /// Authenticated streams from which no lanes were made yet.
  std::map<stream_id, std::unique_ptr<net::stream>> streams;
  /// The agreed membership. None: not all processes have joined.
  std::optional<rendezvous::membership_view> view;
  /// Why the job cannot begin. None: no process has aborted the start.
  std::optional<std::string> abort_reason;
  /// `started`: the job has begun. `shut_down`: the leader has ended it.
  bool started = false, shut_down = false;
};

/// Stores the connection to the process of a task, opens the membership channel
/// and listens to it.
void attach_peer(const std::shared_ptr<peer_table>& peers, std::uint32_t task,
                 std::uint64_t incarnation,
                 std::shared_ptr<net::connection> connection);

} // namespace troupe
