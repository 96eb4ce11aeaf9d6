#pragma once

#include "troupe/net/io/stream.hpp"
#include "troupe/net/security/credentials.hpp"

#include <memory>

namespace troupe::net {

/// TLS 1.3 with certificates on both sides. A peer is accepted if its
/// certificate is valid now and signed by the authority. Names in certificates
/// are not compared with addresses. Streams may outlive this object. All
/// functions are thread-safe.
class tls {
public:
  enum class side { dialer, acceptor };

  /// @errors throws std::invalid_argument with a sentence that names the
  ///         unusable file and the reason.
  explicit tls(const credentials::certificates& files);

  /// Creates a stream over a connected socket, which it owns. The handshake
  /// runs during the first reads and writes; an invalid certificate makes them
  /// `failed`. If a write transferred nothing, the next one must pass the same
  /// bytes.
  /// @errors throws std::system_error; the socket is closed then.
  std::unique_ptr<stream> wrap(int descriptor, side role) const;

private:
  struct context;
  std::shared_ptr<const context> context_;
};

} // namespace troupe::net
