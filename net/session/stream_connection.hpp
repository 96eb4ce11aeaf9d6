#pragma once

#include "troupe/net/io/io_loop.hpp"
#include "troupe/net/io/stream.hpp"
#include "troupe/net/session/failure_detector.hpp"
#include "troupe/net/session/multiplexer.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace troupe::net {

/// A connection over a stream. The posting thread writes if the stream accepts
/// it; the loop's thread reads, and writes the rest. The endpoint owns it until
/// the connection has ended; users may drop their pointers earlier.
class wired_connection final
  : public connection,
    public std::enable_shared_from_this<wired_connection> {
public:
  using clock = std::chrono::steady_clock;
  struct settings {
    std::chrono::milliseconds heartbeat, suspect, patience;
    frame_limits limits;
  };
  /// Called once, when the connection has ended.
  /// @param closed_here true if this side started the close.
  using over_fn = std::function<void(const wired_connection&,
                                     const switchboard::end& how, bool own)>;

  wired_connection(std::shared_ptr<io_loop> by, std::unique_ptr<stream> over,
                   hello peer, const settings& how, over_fn then);
  ~wired_connection() override;

  // -- on the loop's thread ---------------------------------------------------

  void start();
  /// Called at least once per heartbeat interval.
  void tick(clock::time_point now);
  /// Ends the connection now. When the loop has stopped, the thread that
  /// stopped it may call this.
  void end(ending how, const std::string& why, bool said = false);

  // -- for any thread ---------------------------------------------------------

  std::shared_ptr<link> open(std::uint32_t channel) override;
  const hello& peer() const override { return peer_; }
  std::chrono::milliseconds silence() const override;
  void on_end(std::function<void(ending, const std::string&)> fn) override;
  void close(const std::string& why) override;

private:
  class channel_link;
  /// The listener of a channel, and the events it has not received.
  struct ear {
    std::shared_ptr<link_listener> to;
    /// Events that wait for a listener.
    std::vector<switchboard::event> waiting;
  };
  struct news {
    std::shared_ptr<link_listener> to;
    switchboard::event what;
  };

  void listen(std::uint32_t channel, std::shared_ptr<link_listener> to);
  void hand_over(std::uint32_t channel);
  bool drain(std::uint32_t channel, ear& x, std::vector<news>& to) const;
  static void tell(std::vector<news>& all);
  void on_ready();
  std::optional<switchboard::end> read();
  void route();
  void flush();
  void await_stream();
  bool judge_silence(clock::time_point now);

  const std::shared_ptr<io_loop> loop_;
  const hello peer_;
  const settings how_;
  over_fn over_fn_;
  vigil vigil_;

  // Members for the loop's thread alone.
  std::unique_ptr<watch> watch_;
  std::vector<std::byte> piece_;
  std::vector<switchboard::event> events_;
  std::vector<news> news_;
  clock::time_point beat_at_{};

  mutable std::mutex lock_; // guards all members below
  std::unique_ptr<stream> stream_;
  switchboard board_;
  std::map<std::uint32_t, ear> ears_;
  std::vector<std::function<void(ending, const std::string&)>> on_end_;
  std::optional<switchboard::end> over_;
  std::optional<std::string> closing_;
  clock::time_point closing_since_{};
  /// `ok`, or the readiness that a write waits for.
  stream::status blocked_ = stream::status::ok;
  /// The loop's thread is reading and writes afterwards.
  bool corked_ = false;
  /// More bytes may be readable than one turn of the loop reads.
  bool more_ = false;
};

} // namespace troupe::net
