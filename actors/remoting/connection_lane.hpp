#pragma once

#include "troupe/actors/remoting/tensor_channel.hpp"
#include "troupe/actors/remoting/transfer_lane.hpp"
#include "troupe/net/base/close_reason.hpp"
#include "troupe/net/base/descriptor.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

namespace troupe {

/// Carries the large tensors of all channels of a connection over one lane. It
/// has no thread: one thread calls `run`, and the other functions pass commands
/// to this thread.
class connection_lane : public std::enable_shared_from_this<connection_lane> {
public:
  struct options {
    /// The two ends of the connection.
    tensor_transfer::lane_ends ends{};
    tensor_transfer::receiver_limits limits{};
    /// Time that the peer has to send the tensors of a message that was read.
    /// It begins again with each packet of the peer.
    std::chrono::milliseconds transfer_timeout{30'000};
  };
  /// @errors throws std::runtime_error if the process has no descriptor left.
  explicit connection_lane(const options& lane_options);
  ~connection_lane();

  // -- for any thread ---------------------------------------------------------

  /// Opens this side's end of the tensors of a channel.
  /// @pre the peer does not know the number of the channel yet.
  std::shared_ptr<tensor_channel> open(std::uint32_t channel);

  /// Ends `run`, because the connection has ended.
  void stop();

  /// Waits until `stop` was called. @returns false if the timeout has elapsed.
  bool wait_for_stop(std::chrono::milliseconds timeout);

  // -- for the thread of the lane ---------------------------------------------

  /// Sends and receives tensors until `stop` is called, the lane ends, or the
  /// peer violates the protocol.
  /// @returns why the lane has ended. Nullopt: `stop` was called.
  std::optional<net::lane::closed_state>
  run(std::unique_ptr<net::lane> carrier);

  /// As `run`, but does not wait. It returns when there is nothing to do.
  /// @pre `start` was called.
  std::optional<net::lane::closed_state> run_until_idle();
  void start(std::unique_ptr<net::lane> carrier);

  /// Tells all channels that no more tensors arrive. To be called once, after
  /// the last `run`, or if there is no lane.
  void end(const std::optional<net::lane::closed_state>& closed);

private:
  using clock = std::chrono::steady_clock;
  using command = std::function<void()>;
  /// A channel and the tag of a message on it.
  using message_key = std::pair<std::uint32_t, std::uint64_t>;
  class channel_end;

  bool post(command&& task);
  void close(std::uint32_t channel);
  void run_commands();
  void handle(tensor_transfer::effect&& event);
  void deliver(tensor_transfer::arrived&& tensors);
  void check_offers();
  void check_timeouts(clock::time_point now);
  void receive_the_rest();
  void violated(std::string reason);
  std::optional<net::lane::closed_state> step(clock::time_point now);

  const options options_;
  net::descriptor wake_; ///< An eventfd; readable if commands wait.

  std::mutex lock_; // guards the members to the next blank line
  std::condition_variable stop_called_;
  std::vector<command> commands_;
  bool stopped_ = false;
  bool ended_ = false; ///< `end` was called; commands are dropped.
  std::set<std::uint32_t> open_channels_;
  std::uint32_t last_channel_ = 0; ///< Highest number that was opened.

  // For the thread of the lane only.
  std::unique_ptr<transfer_lane> lane_;
  std::map<std::uint32_t, tensor_channel::listener> listeners_;
  /// Messages whose tensors have not arrived, with the time at which the
  /// message was read.
  std::map<message_key, clock::time_point> missing_tensors_;
  /// Messages that have not been read, but whose tensors have arrived. The
  /// message may take any time: it waits in the connection or in the mailbox of
  /// its actor.
  std::set<message_key> early_tensors_;
  /// Packets at the last check of the timeouts.
  std::uint64_t received_packets_ = 0;
  clock::time_point last_packet_{}, next_check_{};
  std::optional<net::lane::closed_state> closed_;
};

} // namespace troupe
