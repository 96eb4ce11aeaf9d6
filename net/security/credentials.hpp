#pragma once

#include <memory>
#include <string>
#include <vector>

namespace troupe::net {

/// How a process proves who it is, and what it asks of others. With neither a
/// secret nor certificates it speaks on loopback only.
struct credentials {
  /// The job's secret; proves, by a challenge and a response over both sides'
  /// nonces (HMAC-SHA-256), that the other side knows it too. What follows is
  /// neither hidden nor signed.
  std::string secret{};

  /// TLS 1.3 with certificates on both sides: PEM files.
  struct certificates {
    std::string authority, certificate, key;
  };
  std::shared_ptr<const certificates> tls{};

  bool none() const { return secret.empty() && !tls; }
};

/// The secret in a file: its bytes without a last line break.
/// @errors throws std::runtime_error with a sentence: missing, empty, or open
///         to others than its owner.
std::string read_secret(const std::string& file);

/// The secret that the environment holds in TROUPE_SECRET, or in the file that
/// TROUPE_SECRET_FILE names; empty if it has neither. Never on a command line,
/// which everybody can read.
/// @errors throws std::invalid_argument if both are set, and as `read_secret`.
std::string secret_from_environment();

/// The PEM files that TROUPE_TLS_CA, TROUPE_TLS_CERTIFICATE and TROUPE_TLS_KEY
/// name; null if they are not set.
/// @errors throws std::invalid_argument if only some of them are.
std::shared_ptr<const credentials::certificates> tls_from_environment();

/// Both of them. @errors as theirs.
credentials credentials_from_environment();

} // namespace troupe::net
