#pragma once

#include <filesystem>

namespace troupe::net {

/// A file with a new secret for one job: 64 hex digits. The file has mode 0600,
/// and lies in a temporary folder of mode 0700. The destructor removes file and
/// folder. Both remain if the process is killed.
class secret_file {
public:
  /// @errors throws std::runtime_error if the file cannot be written.
  secret_file();
  ~secret_file();
  secret_file(const secret_file&) = delete;
  secret_file& operator=(const secret_file&) = delete;

  /// Returns the name of the file, for the variable TROUPE_SECRET_FILE of the
  /// job's processes.
  std::filesystem::path path() const { return folder_ / "secret"; }

private:
  std::filesystem::path folder_;
};

} // namespace troupe::net
