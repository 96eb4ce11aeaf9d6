#pragma once

#include "troupe/net/security/credentials.hpp"

#include <CLI/App.hpp>
#include <memory>
#include <string>

/// --secret-file, --tls-ca, --tls-cert and --tls-key of a command.
class credential_options {
public:
  explicit credential_options(CLI::App& command);

  /// As they say. The environment tells the secret if --secret-file does not,
  /// and the certificates if no option is given.
  /// @errors throws std::invalid_argument for options that contradict each
  ///         other, and as `read_secret` and `credentials_from_environment`.
  troupe::net::credentials read() const;

private:
  struct given {
    std::string secret, authority, certificate, key;
  };
  std::shared_ptr<given> given_ = std::make_shared<given>();
};
