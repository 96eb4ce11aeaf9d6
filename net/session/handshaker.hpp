#pragma once

#include "troupe/net/io/io_loop.hpp"
#include "troupe/net/io/stream.hpp"
#include "troupe/net/session/handshake.hpp"

#include <functional>
#include <memory>

namespace troupe::net {

/// Runs a handshake over a stream. For the loop's thread.
class handshaker {
public:
  /// @param authorize decides on a hello; unused by a dialer.
  /// @param on_done called once at the end, unless the object is destroyed
  ///                before; it may destroy the object.
  handshaker(io_loop& loop, std::unique_ptr<stream> connected_stream,
             handshake initial_state,
             std::function<hello_response(const hello&)> authorize,
             std::function<void()> on_done);

  void start() { advance(); }

  const handshake& machine() const { return machine_; }
  /// True if the handshake succeeded and all its bytes were sent.
  bool accepted() const { return accepted_; }
  /// Reason of the failure, for people, without the peer's name.
  const std::string& reason() const { return reason_; }
  bool received_any() const {
    return received_any_;
  } ///< True if any byte was received.
  /// True if another attempt would fail in the same way.
  bool is_permanent_failure() const { return permanent_failure_; }

  /// Releases the stream, which is no longer watched by the loop. @pre the
  /// handshake succeeded.
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
