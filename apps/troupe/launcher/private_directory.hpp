#pragma once

#include <filesystem>
#include <string>

/// A directory for one run that only this user can read. The destructor removes
/// it.
class private_directory {
public:
  /// @errors throws std::runtime_error if it cannot be made.
  private_directory();
  ~private_directory();
  private_directory(const private_directory&) = delete;
  private_directory& operator=(const private_directory&) = delete;

  /// Writes a file that only this user can read. @returns its path.
  std::string write(const std::string& name, const std::string& text) const;

private:
  std::filesystem::path path_;
};
