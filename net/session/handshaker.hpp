#pragma once

#include "troupe/net/io/io_loop.hpp"
#include "troupe/net/io/stream.hpp"
#include "troupe/net/session/handshake.hpp"

#include <functional>
#include <memory>

namespace troupe::net {

/// A handshake that runs over a stream. For the loop's thread.
class meeting {
public:
  /// @param decide of an acceptor.
  /// @param over called once, unless it is destroyed before; may destroy it.
  meeting(io_loop& by, std::unique_ptr<stream> over_this, handshake how,
          std::function<verdict(const hello&)> decide,
          std::function<void()> over);

  void start() { advance(); }

  const handshake& how() const { return how_; }
  bool taken() const { return taken_; } ///< And the other side was told.
  /// Why it is not taken, for people; without saying who.
  const std::string& why() const { return why_; }
  bool heard() const { return heard_; } ///< Whether any byte came.
  /// Whether another attempt would go the same way.
  bool hopeless() const { return hopeless_; }

  /// @pre taken. Knows nothing of the loop any more.
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
