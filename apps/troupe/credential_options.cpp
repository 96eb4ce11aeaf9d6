#include "credential_options.hpp"

#include <stdexcept>

credential_options::credential_options(CLI::App& command) {
  command
    .add_option("--secret-file", given_->secret,
                "The secret that both sides know, in a file of its owner's; "
                "TROUPE_SECRET_FILE and TROUPE_SECRET also tell it")
    ->type_name("FILE");
  command
    .add_option("--tls-ca", given_->authority,
                "Speak TLS, with those whose certificates this one signed")
    ->type_name("FILE");
  command
    .add_option("--tls-cert", given_->certificate, "One's own certificate")
    ->type_name("FILE");
  command.add_option("--tls-key", given_->key, "Its key")->type_name("FILE");
}

troupe::net::credentials credential_options::read() const {
  troupe::net::credentials to;
  to.secret = given_->secret.empty() ? troupe::net::secret_from_environment()
                                     : troupe::net::read_secret(given_->secret);
  const auto& x = *given_;
  const auto some =
    !x.authority.empty() || !x.certificate.empty() || !x.key.empty();
  if (!some)
    return to;
  if (x.authority.empty() || x.certificate.empty() || x.key.empty())
    throw std::invalid_argument("TLS takes three files: give --tls-ca, "
                                "--tls-cert and --tls-key (troupe cert makes "
                                "them)");
  to.tls = std::make_shared<troupe::net::credentials::certificates>(
    troupe::net::credentials::certificates{x.authority, x.certificate, x.key});
  return to;
}
