#include "credential_options.hpp"

#include <stdexcept>

credential_options::credential_options(CLI::App& command) {
  command
    .add_option("--secret-file", given_->secret,
                "File with the shared secret, readable by its owner alone "
                "[TROUPE_SECRET_FILE, or TROUPE_SECRET itself]")
    ->type_name("FILE");
  command
    .add_option("--tls-ca", given_->authority,
                "Use TLS; accept peers whose certificates this authority "
                "signed [TROUPE_TLS_CA]")
    ->type_name("FILE");
  command
    .add_option("--tls-cert", given_->certificate,
                "Certificate of this process [TROUPE_TLS_CERTIFICATE]")
    ->type_name("FILE");
  command
    .add_option("--tls-key", given_->key,
                "Key of the certificate [TROUPE_TLS_KEY]")
    ->type_name("FILE");
}

/// With --secret-file alone, the certificates of the environment are ignored.
troupe::net::credentials credential_options::read() const {
  using namespace troupe::net;
  const auto& x = *given_;
  const auto some =
    !x.authority.empty() || !x.certificate.empty() || !x.key.empty();
  if (some && (x.authority.empty() || x.certificate.empty() || x.key.empty()))
    throw std::invalid_argument("TLS takes three files: give --tls-ca, "
                                "--tls-cert and --tls-key (troupe cert makes "
                                "them)");
  credentials to;
  to.secret =
    x.secret.empty() ? secret_from_environment() : read_secret(x.secret);
  if (some)
    to.tls = std::make_shared<const credentials::certificates>(
      credentials::certificates{x.authority, x.certificate, x.key});
  else if (x.secret.empty())
    to.tls = tls_from_environment();
  return to;
}
