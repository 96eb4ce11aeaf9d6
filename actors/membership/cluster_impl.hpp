#pragma once

#include "troupe/actors/core/error_code.hpp"
#include "troupe/actors/group/world.hpp"
#include "troupe/actors/membership/cluster.hpp"
#include "troupe/net/session/service_router.hpp"
#include "troupe/net/shm/event_notifier.hpp"
#include "troupe/strategies/membership/rendezvous.hpp"

#include <caf/actor.hpp>

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

namespace troupe {

// -- protocol -----------------------------------------------------------------

/// Kind of a message on the membership channel. The numbers are a wire format:
/// append, never reuse.
enum class word : std::uint8_t {
  table = 0,   ///< Leader to member: all have joined; carries the view.
  ready = 1,   ///< Member to leader: it has lanes to all other processes.
  go = 2,      ///< Leader to member: all are ready, the job has begun.
  give_up = 3, ///< Both ways: the job cannot begin; carries the reason.
  leave = 4,   ///< Member to leader: it leaves the job, or acknowledges
               ///< `shutdown`.
  bye = 5,     ///< Acknowledges `leave`.
  over = 6,    ///< Leader to member: the job ends.
};

/// Message between the leader and another process on the membership channel.
struct notice {
  word what = word::bye;
  std::string text;  ///< Reason, if the kind is `abort`; else empty.
  roster::table all; ///< The agreed view, if the kind is `view`; else empty.
  auto fields() { return std::tie(what, text, all); }
};

// -- state --------------------------------------------------------------------

/// State of the start-up that the endpoint's thread, the joining thread and the
/// status service share.
class hall {
public:
  /// Connection to another process, and its state.
  struct seat {
    std::shared_ptr<net::connection> wire;
    std::shared_ptr<net::link> line; ///< The membership channel.
    std::uint64_t incarnation = 0;   ///< Drawn by the other process at its
                                     ///< start.
    std::uint64_t tag = 0; ///< Number of the last message that was sent on it.
    /// True once the other process is ready; true once it has left, or has
    /// acknowledged that this process leaves.
    bool ready = false, left = false;
    /// How and why the channel closed. None: it is open.
    std::optional<std::pair<net::ending, std::string>> end;
  };
  using clock = std::chrono::steady_clock;
  /// Task and incarnation of the other process, and the stream's purpose.
  using stream_key = std::tuple<std::uint32_t, std::uint64_t, std::string>;

  explicit hall(std::size_t tasks) : seats(tasks) {}

  /// Waits until `done` holds or the time has come. Calls `done` under the
  /// lock.
  /// @returns false if the time has come and `done` does not hold.
  template <class F>
  bool wait(std::unique_lock<std::mutex>& hold, clock::time_point till,
            F&& done) {
    return news.wait_until(hold, till, std::forward<F>(done));
  }

  /// Sends a message. No effect if the channel is not open.
  /// @pre the lock is held.
  void say(seat& to, notice x);

  /// True if the job can no longer begin: a process has aborted the start, or a
  /// channel has closed. @pre the lock is held.
  bool failed() const;

  std::mutex lock;
  std::condition_variable news;
  std::optional<roster::machine> who; ///< None except in the leader's process.
  /// By task. A process other than the leader has only the leader's.
  std::vector<seat> seats;
  /// By task: why the last process that asked for it was rejected.
  std::map<std::uint32_t, std::string> turned_away;
  /// Authenticated streams that no lanes were made of yet.
  std::map<stream_key, std::unique_ptr<net::stream>> streams;
  std::optional<roster::table> table; ///< None: not all have joined.
  /// Why the job cannot begin. None: no process has aborted the start.
  std::optional<std::string> given_up;
  /// True once the job has begun; true once the leader has ended it.
  bool go = false, over = false;
};

/// Stores the connection to the process of a task, opens the membership channel
/// and listens to it.
void settle(const std::shared_ptr<hall>& in, std::uint32_t task,
            std::uint64_t incarnation, std::shared_ptr<net::connection> wire);

class cluster::inside {
public:
  inside(runtime& in, cluster_options&& x);
  ~inside();

  void join();
  void leave() noexcept;

  /// Makes the world of this cluster's replica group.
  /// @pre there is more than one process.
  /// @errors throws std::logic_error the second time.
  std::shared_ptr<const company> make_company(const crew_options& options);

  std::uint32_t processes() const {
    return static_cast<std::uint32_t>(options.names.size());
  }
  /// Actor that answers status queries. Null except in the leader's process.
  const caf::actor& reporter() const { return reporter_; }

  const std::string& me() const { return options.names[options.index]; }

  runtime& on;
  cluster_options options;
  std::vector<peer_lanes> lanes;       ///< By process; empty for this one.
  std::vector<std::string> transports; ///< By process: see `transport_to`.

private:
  void check() const;
  void open_door();
  void serve();
  door::host status_host();
  net::verdict admit(const net::hello& x);
  net::verdict admit_stream(const net::hello& x);
  void gather_all();
  void dial_leader();
  void dial_peers();
  void dial_peer(std::uint32_t peer, const std::string& purpose);
  void open_lanes();
  void open_lane(std::uint32_t peer);
  void start_together();
  [[noreturn]] void fail(ec code, const std::string& why);
  void check_news(std::unique_lock<std::mutex>& hold);
  roster::hello own_hello() const;
  net::hello greeting(const std::string& purpose) const;
  bool on_this_host(std::uint32_t peer) const;
  std::string strangers() const;

  std::shared_ptr<hall> hall_;
  std::shared_ptr<door> door_;
  std::vector<std::unique_ptr<door::guest>> served_;
  caf::actor reporter_;
  std::shared_ptr<net::bell> bell_;
  std::uint64_t incarnation_ = 0;
  /// Connections that the endpoint had rejected before this job began.
  std::size_t strangers_before_ = 0;
  hall::clock::time_point deadline_;
  roster::table table_;
  bool joined_ = false, crewed_ = false;
};

} // namespace troupe
