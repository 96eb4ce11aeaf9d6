#pragma once

#include "troupe/net/io/stream.hpp"
#include "troupe/net/security/credentials.hpp"

#include <memory>

namespace troupe::net {

/// TLS 1.3 with certificates on both sides: whoever has one that the authority
/// signed, and that is valid now, is let in. Names in it are not compared with
/// addresses. Makes streams; they may outlive it. Safe to use from any thread.
class tls {
public:
  enum class side { dialer, acceptor };

  /// @errors throws std::invalid_argument with a sentence: which file cannot
  ///         be used, and why.
  explicit tls(const credentials::certificates& files);

  /// A stream over a connected socket, which it owns. The handshake runs within
  /// its first reads and writes; a bad certificate makes them `failed`. After a
  /// write of which nothing moved, the next one must bring the same bytes.
  /// @errors throws std::system_error; the socket is closed then.
  std::unique_ptr<stream> wrap(int descriptor, side at) const;

private:
  struct context;
  std::shared_ptr<const context> context_;
};

} // namespace troupe::net
