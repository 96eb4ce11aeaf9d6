#pragma once

#include "troupe/net/io/io_loop.hpp"
#include "troupe/net/io/stream.hpp"
#include "troupe/net/session/handshake.hpp"

#include <functional>
#include <memory>

namespace troupe::net {

/// Runs a handshake over a stream. For the loop's thread only.
class handshaker {
public:
  /// @param authorize accepts or rejects the peer's hello. A dialer never calls
  ///                  it.
  /// @param on_done called once when the handshake has ended. It may destroy
  ///                the handshaker. If the handshaker is destroyed earlier,
  ///                `on_done` is not called.
  handshaker(io_loop& loop, std::unique_ptr<stream> connected_stream,
             handshake initial_state,
             std::function<hello_response(const hello&)> authorize,
             std::function<void()> on_done);

  void start() { advance(); }

  const handshake& machine() const { return machine_; }
  /// True if the handshake has succeeded and all of its bytes were sent.
  bool accepted() const { return accepted_; }
  /// Returns a text that says why the handshake failed. It does not name the
  /// peer.
  const std::string& reason() const { return reason_; }
  /// True if the peer has sent a byte.
  bool received_any() const { return received_any_; }
  /// True if a new attempt would fail for the same reason.
  bool is_permanent_failure() const { return permanent_failure_; }

  /// Returns the stream, which the loop no longer watches. @pre `accepted()`.
  std::unique_ptr<stream> take_stream();

private:
  void advance();
  bool write();
  bool read();
  bool wait(stream::status blocked_on);
  void finish();

  std::unique_ptr<stream> stream_;
  handshake machine_;
  std::function<hello_response(const hello&)> authorize_;
  std::function<void()> on_done_;
  std::string reason_;
  bool accepted_ = false, received_any_ = false, permanent_failure_ = false;
  std::unique_ptr<descriptor_watcher> watcher_;
};

} // namespace troupe::net
