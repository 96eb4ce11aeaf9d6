#pragma once

#include <memory>
#include <string>
#include <vector>

namespace troupe::net {

/// Credentials by which a process and its peers authenticate each other: a
/// secret, certificates, or both. A process without credentials communicates on
/// loopback only.
struct credentials {
  /// Secret that all processes of the job know. In the handshake each side
  /// proves that it knows the secret, by an HMAC-SHA-256 over the nonces of
  /// both sides. Bytes after the handshake are neither encrypted nor signed.
  /// Empty: no secret.
  std::string secret{};

  /// Names of the PEM files for TLS 1.3, in which both sides have a
  /// certificate.
  struct certificates {
    std::string authority, certificate, key;
  };
  std::shared_ptr<const certificates> tls{}; ///< Files for TLS. Null: no TLS.

  /// True if there is neither a secret nor certificates.
  bool none() const { return secret.empty() && !tls; }
};

/// Reads a secret from a file. A final line break is not part of the secret.
/// @errors throws std::runtime_error with a sentence if the file is missing,
///         empty, not regular, larger than 4096 bytes, or accessible to users
///         other than its owner.
std::string read_secret(const std::string& file);

/// Returns the secret in the variable TROUPE_SECRET, or in the file that
/// TROUPE_SECRET_FILE names. Empty: neither variable is set. No program takes a
/// secret on its command line, because all users of the host can read command
/// lines.
/// @errors throws std::invalid_argument if both variables are set, and
///         std::runtime_error as `read_secret`.
std::string secret_from_environment();

/// Returns the names of the PEM files in the variables TROUPE_TLS_CA,
/// TROUPE_TLS_CERTIFICATE and TROUPE_TLS_KEY. Null: none of them is set.
/// @errors throws std::invalid_argument if only some of the variables are set.
std::shared_ptr<const credentials::certificates> tls_from_environment();

/// Returns the results of `secret_from_environment` and `tls_from_environment`.
/// @errors throws as these two functions.
credentials credentials_from_environment();

} // namespace troupe::net
