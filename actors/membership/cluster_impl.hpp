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

/// What processes say on the membership's channel. The numbers are a wire
/// format: append, never reuse.
enum class word : std::uint8_t {
  table = 0,   ///< Leader: all are here, these they are.
  ready = 1,   ///< Member: I can speak to all.
  go = 2,      ///< Leader: so can everybody.
  give_up = 3, ///< Leader: the job does not begin, for this reason.
  leave = 4,   ///< Member: I go.
  bye = 5,     ///< Leader: go in peace.
  over = 6,    ///< Leader: the job ends.
};

struct notice {
  word what = word::bye;
  std::string text; ///< Of give_up.
  roster::table all;
  auto fields() { return std::tie(what, text, all); }
};

// -- state --------------------------------------------------------------------

/// What the endpoint's thread and whoever joins share.
class hall {
public:
  /// What a process has of another.
  struct seat {
    std::shared_ptr<net::connection> wire;
    std::shared_ptr<net::link> line; ///< The membership's channel.
    std::uint64_t incarnation = 0;
    std::uint64_t tag = 0; ///< Of the last notice that was sent.
    bool ready = false, left = false;
    std::optional<std::pair<net::ending, std::string>> end;
  };
  using clock = std::chrono::steady_clock;
  /// Task, incarnation, purpose.
  using stream_key = std::tuple<std::uint32_t, std::uint64_t, std::string>;

  explicit hall(std::size_t tasks) : seats(tasks) {}

  /// Waits until `done`, which is asked under the lock.
  template <class F>
  bool wait(std::unique_lock<std::mutex>& hold, clock::time_point till,
            F&& done) {
    return news.wait_until(hold, till, std::forward<F>(done));
  }

  /// Under the lock.
  void say(seat& to, notice x);

  /// Under the lock: whether the job cannot begin any more, since the leader
  /// gave up or a connection has ended.
  bool failed() const;

  std::mutex lock;
  std::condition_variable news;
  std::optional<roster::machine> who; ///< The leader's.
  std::vector<seat> seats;            ///< By task; members use the first.
  /// Why the last process was refused that came for a task.
  std::map<std::uint32_t, std::string> turned_away;
  std::map<stream_key, std::unique_ptr<net::stream>> streams;
  std::optional<roster::table> table;
  std::optional<std::string> given_up; ///< By the leader.
  bool go = false, over = false;
};

/// Takes a connection for a seat, and hears what comes over it.
void settle(const std::shared_ptr<hall>& in, std::uint32_t task,
            std::uint64_t incarnation, std::shared_ptr<net::connection> wire);

class cluster::inside {
public:
  inside(runtime& in, cluster_options&& x);
  ~inside();

  void join();
  void leave() noexcept;

  /// @returns the company of a crew. @pre once.
  std::shared_ptr<const company> make_company(const crew_options& options);

  std::uint32_t processes() const {
    return static_cast<std::uint32_t>(options.names.size());
  }
  /// Led to the job's chief; only in the leader's process. @returns null else.
  const caf::actor& reporter() const { return reporter_; }

  const std::string& me() const { return options.names[options.index]; }

  runtime& on;
  cluster_options options;
  std::vector<peer_lanes> lanes;       ///< By process.
  std::vector<std::string> transports; ///< Likewise.

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
  std::size_t strangers_before_ = 0; ///< At the door, before this job began.
  hall::clock::time_point deadline_;
  roster::table table_;
  bool joined_ = false, crewed_ = false;
};

} // namespace troupe
