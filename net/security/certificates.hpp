#pragma once

// Certificates for tests and small clusters, as PEM texts. Keys use the curve
// P-256 and are never encrypted: keep them in files of mode 0600.

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::net {

/// A certificate and its private key, both as PEM.
struct certified_key {
  std::string certificate, key;
};

/// Contents of a certificate.
struct certificate_options {
  std::string name = "worker"; ///< Common name; 1 to 64 bytes.
  /// Host names and addresses for which the certificate is valid; unused by an
  /// authority.
  std::vector<std::string> hosts{"localhost", "127.0.0.1", "::1"};
  /// Start of validity; one hour ago by default, because clocks differ.
  std::chrono::system_clock::time_point not_before =
    std::chrono::system_clock::now() - std::chrono::hours{1};
  /// End of validity.
  std::chrono::system_clock::time_point not_after =
    std::chrono::system_clock::now() + std::chrono::days{365};
};

/// Thrown if a text is not the certificate or key of an authority.
struct invalid_authority : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// Makes a self-signed authority, which cannot have authorities below it.
/// @errors throws std::invalid_argument for an invalid name or time,
///         std::runtime_error if OpenSSL fails.
certified_key make_authority(const certificate_options& options);

/// Makes a certificate for either side of a connection. The time is not
/// checked, because tests need expired ones.
/// @errors throws std::invalid_argument for an invalid host, name or time,
///         `invalid_authority`, std::runtime_error if OpenSSL fails.
certified_key make_certificate(const certified_key& authority,
                               const certificate_options& options);

} // namespace troupe::net
