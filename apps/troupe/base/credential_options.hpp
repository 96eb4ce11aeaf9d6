#pragma once

#include "troupe/net/security/credentials.hpp"

#include <CLI/App.hpp>
#include <memory>
#include <string>

/// The options --secret-file, --tls-ca, --tls-cert and --tls-key of a command.
class credential_options {
public:
  explicit credential_options(CLI::App& command);

  /// Reads the credentials. Without --secret-file, the secret comes from the
  /// environment. If none of the four options is given, the certificates come
  /// from the environment too.
  /// @errors throws std::invalid_argument for an incomplete set of TLS options,
  ///         and what `read_secret` and `credentials_from_environment` throw.
  troupe::net::credentials read() const;

private:
  struct file_paths {
    std::string secret, authority, certificate, key;
  };
  std::shared_ptr<file_paths> paths_ = std::make_shared<file_paths>();
};
