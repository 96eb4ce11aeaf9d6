#pragma once

// Makes certificates for tests and small clusters, as PEM texts. Keys use the
// curve P-256. They are not encrypted, so they belong in files of mode 0600.

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::net {

/// A certificate and its private key, both as PEM.
struct certified_key {
  std::string certificate, key;
};

/// Contents of a certificate to make.
struct certificate_options {
  std::string name = "worker"; ///< Common name, of 1 to 64 bytes.
  /// Host names and IP addresses for which the certificate is valid.
  /// `make_authority` ignores them.
  std::vector<std::string> hosts{"localhost", "127.0.0.1", "::1"};
  /// Start of validity. The default is one hour ago, because the clocks of
  /// hosts differ.
  std::chrono::system_clock::time_point not_before =
    std::chrono::system_clock::now() - std::chrono::hours{1};
  /// End of validity.
  std::chrono::system_clock::time_point not_after =
    std::chrono::system_clock::now() + std::chrono::days{365};
};

/// Thrown by `make_certificate` if its argument `authority` is not the
/// certificate of a certificate authority with the matching key.
struct invalid_authority : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// Makes a self-signed certificate authority. It can sign certificates, but no
/// further authorities.
/// @errors throws std::invalid_argument for an invalid name or time. Throws
///         std::runtime_error if OpenSSL fails.
certified_key make_authority(const certificate_options& options);

/// Makes a certificate that both a dialer and an acceptor can use. The validity
/// may lie in the past, because tests need expired certificates.
/// @errors throws std::invalid_argument for an invalid host, name or time, and
///         `invalid_authority` for an invalid authority. Throws
///         std::runtime_error if OpenSSL fails.
certified_key make_certificate(const certified_key& authority,
                               const certificate_options& options);

} // namespace troupe::net
