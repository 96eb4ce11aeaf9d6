#pragma once

#include "troupe/net/io/exclusive_file.hpp"
#include "troupe/net/security/certificates.hpp"
#include "troupe/net/security/credentials.hpp"
#include "troupe/tests/support/scratch.hpp"

#include <chrono>

namespace troupe::net::testing {

/// Makes files with an authority and with certificates that the authority
/// signs.
class certificate_test : public scratch_test {
protected:
  using files = credentials::certificates;

  /// Returns the files of a process. The authority `by` has signed its
  /// certificate, and the process trusts the authority `ours`.
  files signed_by(const certified_key& by, const std::string& name,
                  std::chrono::hours until = std::chrono::hours{1},
                  std::chrono::hours from = -std::chrono::hours{100}) const {
    const auto now = std::chrono::system_clock::now();
    const auto signed_key = make_certificate(
      by, {.name = name, .not_before = now + from, .not_after = now + until});
    put(name + ".pem", signed_key.certificate);
    std::filesystem::remove(folder / (name + ".key"));
    write_new_file(folder / (name + ".key"), signed_key.key,
                   file_access::owner);
    put("authority.pem", ours.certificate);
    const auto in_folder = [&](const std::string& x) {
      return (folder / x).string();
    };
    return {in_folder("authority.pem"), in_folder(name + ".pem"),
            in_folder(name + ".key")};
  }
  files good(const std::string& name = "good") const {
    return signed_by(ours, name);
  }
  files expired() const {
    return signed_by(ours, "expired", -std::chrono::hours{1});
  }
  files not_valid_yet() const {
    return signed_by(ours, "early", std::chrono::hours{3},
                     std::chrono::hours{2});
  }
  files foreign() const {
    return signed_by(make_authority({.name = "theirs"}), "foreign");
  }

  const certified_key ours = make_authority({.name = "ours"});
};

} // namespace troupe::net::testing
