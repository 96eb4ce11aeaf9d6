#include "troupe/apps/troupe/base/credential_options.hpp"

#include <stdexcept>

credential_options::credential_options(CLI::App& command) {
  command
    .add_option("--secret-file", paths_->secret,
                "File with the shared secret, readable by its owner alone "
                "[TROUPE_SECRET_FILE, or TROUPE_SECRET itself]")
    ->type_name("FILE");
  command
    .add_option("--tls-ca", paths_->authority,
                "Use TLS; accept peers whose certificates this authority "
                "signed [TROUPE_TLS_CA]")
    ->type_name("FILE");
  command
    .add_option("--tls-cert", paths_->certificate,
                "Certificate of this process [TROUPE_TLS_CERTIFICATE]")
    ->type_name("FILE");
  command
    .add_option("--tls-key", paths_->key,
                "Key of the certificate [TROUPE_TLS_KEY]")
    ->type_name("FILE");
}

/// If --secret-file is given without the TLS options, this function ignores the
/// certificates that environment variables name.
troupe::net::credentials credential_options::read() const {
  using namespace troupe::net;
  const auto& paths = *paths_;
  const auto has_tls = !paths.authority.empty() || !paths.certificate.empty()
                       || !paths.key.empty();
  if (has_tls
      && (paths.authority.empty() || paths.certificate.empty()
          || paths.key.empty()))
    throw std::invalid_argument("TLS takes three files: give --tls-ca, "
                                "--tls-cert and --tls-key (troupe cert makes "
                                "them)");
  credentials result;
  result.secret = paths.secret.empty() ? secret_from_environment()
                                       : read_secret(paths.secret);
  if (has_tls)
    result.tls = std::make_shared<const credentials::certificates>(
      credentials::certificates{paths.authority, paths.certificate, paths.key});
  else if (paths.secret.empty())
    result.tls = tls_from_environment();
  return result;
}
