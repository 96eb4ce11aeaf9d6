#pragma once

#include "troupe/actors/remoting/lane_thread.hpp"

#include <list>
#include <map>
#include <mutex>
#include <set>

namespace troupe {

/// Purpose of the stream that becomes the lane of a client's connection. Its
/// hello has the incarnation and payload of the connection's hello.
inline constexpr const char* tensors_purpose = "tensors";

/// Makes the lanes of a node's connections and owns their threads. Any thread
/// may call its functions. None of them blocks, except the destructor.
class lane_acceptor {
public:
  struct options {
    std::uint64_t incarnation = 0; ///< Incarnation of this process.
    std::size_t max_lanes = 0;     ///< Maximum number of lanes with a thread.
    lane_thread::options thread{};
  };
  explicit lane_acceptor(const options& acceptor_options);
  /// Ends all lanes, and waits for their threads.
  ~lane_acceptor();
  lane_acceptor(const lane_acceptor&) = delete;
  lane_acceptor& operator=(const lane_acceptor&) = delete;

  /// Makes the lane of a connection. Its thread waits for the stream.
  /// @returns null if the client's hello announces no lane.
  /// @errors throws std::runtime_error if there are too many lanes, or the
  ///         client has announced this lane before.
  std::shared_ptr<connection_lane>
  open(const std::shared_ptr<net::connection>& connection);

  /// True if a connection waits for the stream with this hello.
  bool expects(const net::hello& peer) const;

  /// Passes a stream to the thread that waits for it. No effect if no
  /// connection waits for the stream.
  void accept(const net::hello& peer, std::unique_ptr<net::stream> stream);

private:
  /// Incarnation of the client, and the payload of its hello.
  using key = std::pair<std::uint64_t, std::vector<std::byte>>;

  /// The connections that have a lane. Connections own it too, because they may
  /// end after the acceptor.
  struct connection_table {
    std::mutex lock; // guards the members below
    std::set<key> announced;
    /// Connections that wait for their stream.
    std::map<key, std::promise<std::unique_ptr<net::stream>>> waiting;

    void forget(const key& connection_key);
  };

  const options options_;
  const std::shared_ptr<connection_table> connections_ =
    std::make_shared<connection_table>();
  std::list<lane_thread> threads_; // guarded by the lock of the connections
};

} // namespace troupe
