#pragma once

#include <memory>
#include <string>
#include <vector>

namespace troupe::net {

/// How a process authenticates itself, and what it requires of peers. Without a
/// secret and certificates it communicates on loopback only.
struct credentials {
  /// Secret of the job. Each side proves that it knows the secret by a
  /// challenge and a response over both nonces (HMAC-SHA-256). Later messages
  /// are neither encrypted nor signed.
  std::string secret{};

  /// TLS 1.3 with certificates on both sides. Names of PEM files.
  struct certificates {
    std::string authority, certificate, key;
  };
  std::shared_ptr<const certificates> tls{}; ///< Null: no TLS.

  /// True if there is neither a secret nor a certificate.
  bool none() const { return secret.empty() && !tls; }
};

/// Reads the secret from a file: its bytes without a final line break.
/// @errors throws std::runtime_error with a sentence for people if the file is
///         missing, empty, or accessible to others than its owner.
std::string read_secret(const std::string& file);

/// Returns the secret in TROUPE_SECRET, or in the file that TROUPE_SECRET_FILE
/// names; empty if neither is set. A secret is never passed on a command line,
/// which all users can read.
/// @errors throws std::invalid_argument if both are set; throws as
///         `read_secret`.
std::string secret_from_environment();

/// Returns the PEM files that TROUPE_TLS_CA, TROUPE_TLS_CERTIFICATE and
/// TROUPE_TLS_KEY name; null if none is set.
/// @errors throws std::invalid_argument if only some are set.
std::shared_ptr<const credentials::certificates> tls_from_environment();

/// Returns the secret and the PEM files. @errors throws as
/// `secret_from_environment` and `tls_from_environment`.
credentials credentials_from_environment();

} // namespace troupe::net
