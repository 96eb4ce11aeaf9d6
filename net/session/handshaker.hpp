#pragma once

#include "troupe/net/io/io_loop.hpp"
#include "troupe/net/io/stream.hpp"
#include "troupe/net/session/handshake.hpp"

#include <functional>
#include <memory>

namespace troupe::net {

/// Runs a handshake over a stream. For the loop's thread.
class meeting {
public:
  /// @param authorize decides on a hello; unused by a dialer.
  /// @param on_done called once at the end, unless the object is destroyed
  ///                before; it may destroy the object.
  meeting(io_loop& by, std::unique_ptr<stream> over_this, handshake how,
          std::function<verdict(const hello&)> decide,
          std::function<void()> over);

  void start() { advance(); }

  const handshake& how() const { return how_; }
  /// True if the handshake succeeded and all its bytes were sent.
  bool taken() const { return taken_; }
  /// Reason of the failure, for people, without the peer's name.
  const std::string& why() const { return why_; }
  bool heard() const { return heard_; } ///< True if any byte was received.
  /// True if another attempt would fail in the same way.
  bool hopeless() const { return hopeless_; }

  /// Releases the stream, which is no longer watched by the loop. @pre the
  /// handshake succeeded.
  std::unique_ptr<stream> take_stream();

private:
  void advance();
  bool write();
  bool read();
  bool wait(stream::status how);
  void end();

  std::unique_ptr<stream> stream_;
  handshake how_;
  std::function<verdict(const hello&)> decide_;
  std::function<void()> over_;
  std::string why_;
  bool taken_ = false, heard_ = false, hopeless_ = false;
  std::unique_ptr<watch> watch_;
};

} // namespace troupe::net
