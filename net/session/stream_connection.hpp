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

/// A connection over a stream. Who posts also writes, if the stream takes it;
/// the loop's thread reads, and writes the rest. Lives on by itself until it
/// has ended.
class wired_connection final
  : public connection,
    public std::enable_shared_from_this<wired_connection> {
public:
  using clock = std::chrono::steady_clock;
  struct settings {
    std::chrono::milliseconds heartbeat, suspect, patience;
    frame_limits limits;
  };
  /// @param own whether this side had asked for it.
  using over_fn = std::function<void(const wired_connection&,
                                     const switchboard::end& how, bool own)>;

  wired_connection(std::shared_ptr<io_loop> by, std::unique_ptr<stream> over,
                   hello peer, const settings& how, over_fn then);
  ~wired_connection() override;

  // -- on the loop's thread ---------------------------------------------------

  void start();
  /// To be called at least every heartbeat.
  void tick(clock::time_point now);
  /// Ends it now. Also when the loop has stopped, by whoever stopped it.
  void end(ending how, const std::string& why, bool said = false);

  // -- from any thread --------------------------------------------------------

  std::shared_ptr<link> open(std::uint32_t channel) override;
  const hello& peer() const override { return peer_; }
  std::chrono::milliseconds silence() const override;
  void on_end(std::function<void(ending, const std::string&)> fn) override;
  void close(const std::string& why) override;

private:
  class channel_link;
  /// What is between the connection and a listener.
  struct ear {
    std::shared_ptr<link_listener> to;
    std::vector<switchboard::event> waiting; ///< For a listener.
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

  // Of the loop's thread alone.
  std::unique_ptr<watch> watch_;
  std::vector<std::byte> piece_;
  std::vector<switchboard::event> events_;
  std::vector<news> news_;
  clock::time_point beat_at_{};

  mutable std::mutex lock_; // of all below
  std::unique_ptr<stream> stream_;
  switchboard board_;
  std::map<std::uint32_t, ear> ears_;
  std::vector<std::function<void(ending, const std::string&)>> on_end_;
  std::optional<switchboard::end> over_;
  std::optional<std::string> closing_;
  clock::time_point closing_since_{};
  stream::status blocked_ = stream::status::ok; ///< What a write waits for.
  bool corked_ = false; ///< The loop's thread will write when it has read.
  bool more_ = false;   ///< There is more to read than one turn takes.
};

} // namespace troupe::net
