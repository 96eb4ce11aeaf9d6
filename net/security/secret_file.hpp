#pragma once

#include <filesystem>

namespace troupe::net {

/// A new secret for one job: 64 hex digits in a file of mode 0600, in a
/// temporary folder of mode 0700. The destructor removes both; they remain if
/// the process is killed.
class secret_file {
public:
  /// @errors throws std::runtime_error if the file cannot be written.
  secret_file();
  ~secret_file();
  secret_file(const secret_file&) = delete;
  secret_file& operator=(const secret_file&) = delete;

  /// Value of TROUPE_SECRET_FILE for the job's processes.
  std::filesystem::path path() const { return folder_ / "secret"; }

private:
  std::filesystem::path folder_;
};

} // namespace troupe::net
