#include "troupe/apps/troupe/launcher/job_credentials.hpp"

using namespace troupe;

job_credentials::job_credentials(bool tls) {
  if (!tls) {
    secret_.emplace();
    return;
  }
  authority_ = net::make_authority({.name = "troupe run"});
  directory_.emplace();
}

environment_changes
job_credentials::environment_of(const std::string& process) const {
  environment_changes out;
  for (const auto* name :
       {"TROUPE_SECRET", "TROUPE_SECRET_FILE", "TROUPE_TLS_CA",
        "TROUPE_TLS_CERTIFICATE", "TROUPE_TLS_KEY"})
    out[name] = std::nullopt; // the caller's credentials are not used
  if (secret_) {
    out["TROUPE_SECRET_FILE"] = secret_->path().string();
    return out;
  }
  const auto certificate = net::make_certificate(authority_, {.name = process});
  out["TROUPE_TLS_CA"] =
    directory_->write(process + "-ca.pem", authority_.certificate);
  out["TROUPE_TLS_CERTIFICATE"] =
    directory_->write(process + ".pem", certificate.certificate);
  out["TROUPE_TLS_KEY"] =
    directory_->write(process + "-key.pem", certificate.key);
  return out;
}
