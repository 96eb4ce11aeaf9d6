#pragma once

// Certificates for tests and small clusters, as PEM texts. Keys are of the
// curve P-256 and never encrypted: keep them in files of mode 0600.

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::net {

/// A certificate and the private key that goes with it, both PEM.
struct identity {
  std::string certificate, key;
};

struct certificate_options {
  std::string name = "worker"; ///< Its common name: 1 to 64 bytes.
  /// Names and addresses that it is good for; an authority has none.
  std::vector<std::string> hosts{"localhost", "127.0.0.1", "::1"};
  /// An hour ago, as clocks differ.
  std::chrono::system_clock::time_point not_before =
    std::chrono::system_clock::now() - std::chrono::hours{1};
  std::chrono::system_clock::time_point not_after =
    std::chrono::system_clock::now() + std::chrono::days{365};
};

/// Texts that are no authority's certificate and key.
struct bad_authority : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// Signs itself, and others; no authority below it may.
/// @errors throws std::invalid_argument for a name or a time that will not do,
///         std::runtime_error if OpenSSL cannot.
identity make_authority(const certificate_options& options);

/// For both sides of a connection. Time is not checked: tests want expired
/// ones.
/// @errors throws std::invalid_argument for a host, a name or a time that will
///         not do, `bad_authority`, std::runtime_error if OpenSSL cannot.
identity make_certificate(const identity& authority,
                          const certificate_options& options);

} // namespace troupe::net
