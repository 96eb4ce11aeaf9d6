#pragma once

#include <filesystem>

namespace troupe::net {

/// A fresh secret for one job: 64 hex digits in a file of mode 0600, in a
/// temporary folder of mode 0700. Gone with this object, but not if the process
/// is killed.
class secret_file {
public:
  /// @errors throws std::runtime_error if it cannot be written.
  secret_file();
  ~secret_file();
  secret_file(const secret_file&) = delete;
  secret_file& operator=(const secret_file&) = delete;

  /// What TROUPE_SECRET_FILE names for the job's processes.
  std::filesystem::path path() const { return folder_ / "secret"; }

private:
  std::filesystem::path folder_;
};

} // namespace troupe::net
