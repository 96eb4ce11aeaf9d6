#pragma once

#include "troupe/net/io/stream.hpp"
#include "troupe/net/session/connection.hpp"
#include "troupe/strategies/membership/rendezvous.hpp"

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

/// Kind of a message on the membership channel. The numbers are a wire format:
/// append, never reuse.
enum class membership_message_kind : std::uint8_t {
  view = 0,      ///< Leader to member: all have joined; carries the view.
  ready = 1,     ///< Member to leader: it has lanes to all other processes.
  start = 2,     ///< Leader to member: all are ready, the job has begun.
  abort = 3,     ///< Both ways: the job cannot begin; carries the reason.
  leave = 4,     ///< Member to leader: it leaves the job, or acknowledges
                 ///< `shutdown`.
  leave_ack = 5, ///< Acknowledges `leave`.
  shutdown = 6,  ///< Leader to member: the job ends.
};

/// Message between the leader and another process on the membership channel.
struct membership_message {
  membership_message_kind kind = membership_message_kind::leave_ack;
  std::string text; ///< Reason, if the kind is `abort`; else empty.
  /// The agreed view, if the kind is `view`; else empty.
  rendezvous::membership_view view;
  auto fields() { return std::tie(kind, text, view); }
};

// -- state --------------------------------------------------------------------

/// State of the start-up that the endpoint's thread, the joining thread and the
/// status service share.
class peer_table {
public:
  /// Connection to another process, and its state.
  struct peer_entry {
    std::shared_ptr<net::connection> connection;
    std::shared_ptr<net::channel> channel; ///< The membership channel.
    std::uint64_t incarnation = 0; ///< Drawn by the other process at its
                                   ///< start.
    /// Number of the last message that was sent on it.
    std::uint64_t last_tag = 0;
    /// True once the other process is ready; true once it has left, or has
    /// acknowledged that this process leaves.
    bool is_ready = false, has_left = false;
    /// How and why the channel closed. None: it is open.
    std::optional<std::pair<net::close_reason, std::string>> closed;
  };
  using clock = std::chrono::steady_clock;
  /// Task and incarnation of the other process, and the stream's purpose.
  using stream_id = std::tuple<std::uint32_t, std::uint64_t, std::string>;

  explicit peer_table(std::size_t task_count) : entries(task_count) {}

  /// Waits until `done` holds or the time has come. Calls `done` under the
  /// lock.
  /// @returns false if the time has come and `done` does not hold.
  template <class F>
  bool wait(std::unique_lock<std::mutex>& hold, clock::time_point deadline,
            F&& done) {
    return changed.wait_until(hold, deadline, std::forward<F>(done));
  }

  /// Sends a message. No effect if the channel is not open.
  /// @pre the lock is held.
  void send(peer_entry& peer, membership_message message);

  /// True if the job can no longer begin: a process has aborted the start, or a
  /// channel has closed. @pre the lock is held.
  bool failed() const;

  std::mutex lock;
  std::condition_variable changed;
  /// None except in the leader's process.
  std::optional<rendezvous::state_machine> admission_state;
  /// By task. A process other than the leader has only the leader's.
  std::vector<peer_entry> entries;
  /// By task: why the last process that asked for it was rejected.
  std::map<std::uint32_t, std::string> rejections;
  /// Authenticated streams that no lanes were made of yet.
  std::map<stream_id, std::unique_ptr<net::stream>> streams;
  /// None: not all have joined.
  std::optional<rendezvous::membership_view> view;
  /// Why the job cannot begin. None: no process has aborted the start.
  std::optional<std::string> abort_reason;
  /// True once the job has begun; true once the leader has ended it.
  bool started = false, shut_down = false;
};

/// Stores the connection to the process of a task, opens the membership channel
/// and listens to it.
void attach_peer(const std::shared_ptr<peer_table>& peers, std::uint32_t task,
                 std::uint64_t incarnation,
                 std::shared_ptr<net::connection> connection);

} // namespace troupe
