#pragma once

#include "troupe/net/io/stream.hpp"
#include "troupe/net/security/credentials.hpp"

#include <memory>

namespace troupe::net {

/// Creates streams with TLS 1.3, in which both sides have a certificate. A peer
/// is accepted if its certificate is valid now and signed by the authority.
/// Names in certificates are not compared with addresses. The streams may
/// outlive this object. Any thread may call the functions of `tls`.
class tls {
public:
  enum class side { dialer, acceptor };

  /// @errors throws std::invalid_argument if a file cannot be used. The
  ///         sentence names the file and the reason.
  explicit tls(const credentials::certificates& files);

  /// Creates a stream over a connected socket. The stream owns the socket. The
  /// TLS handshake runs during the first reads and writes, which return
  /// `failed` if the peer's certificate is invalid.
  /// @errors throws std::system_error or std::bad_alloc after it has closed the
  ///         socket.
  std::unique_ptr<stream> wrap(int descriptor, side role) const;

private:
  struct context;
  std::shared_ptr<const context> context_;
};

} // namespace troupe::net
