#include "troupe/training/multi_worker.hpp"

#include <cstdlib>
#include <stdexcept>

namespace troupe {

namespace {

std::string variable_of(const char* x) {
  const auto* text = std::getenv(x);
  return text ? text : "";
}

} // namespace

net::credentials credentials_from_environment() {
  net::credentials out;
  out.secret = net::secret_from_environment();
  const net::credentials::certificates files{
    variable_of("TROUPE_TLS_CA"), variable_of("TROUPE_TLS_CERTIFICATE"),
    variable_of("TROUPE_TLS_KEY")};
  const auto given =
    !files.authority.empty() + !files.certificate.empty() + !files.key.empty();
  if (given != 0 && given != 3)
    throw std::invalid_argument(
      "TLS takes three PEM files, in TROUPE_TLS_CA, TROUPE_TLS_CERTIFICATE and "
      "TROUPE_TLS_KEY; set all of them, or none");
  if (given == 3)
    out.tls = std::make_shared<const net::credentials::certificates>(files);
  return out;
}

} // namespace troupe
