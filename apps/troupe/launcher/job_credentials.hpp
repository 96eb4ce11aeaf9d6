#pragma once

#include "troupe/apps/troupe/launcher/child_processes.hpp"
#include "troupe/apps/troupe/launcher/private_directory.hpp"
#include "troupe/net/security/certificates.hpp"
#include "troupe/net/security/secret_file.hpp"

#include <optional>
#include <string>

/// Credentials by which the processes of one run authenticate each other. The
/// destructor removes their files.
class job_credentials {
public:
  /// @param tls true: certificates. False: a secret.
  explicit job_credentials(bool tls);

  /// Returns the environment variables with which a process is started.
  environment_changes environment_of(const std::string& process) const;

private:
  std::optional<troupe::net::secret_file> secret_;
  std::optional<private_directory> directory_;
  troupe::net::certified_key authority_;
};
