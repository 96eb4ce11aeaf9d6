#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>

namespace troupe::injection {

/// File in which the processes of a job note which faults of a plan have
/// occurred. So a process that is started again does not repeat the faults.
/// Each note is one line: index of the fault in the plan, and process number.
/// @cost a note is one system call, and survives a kill of the process.
class fault_notes {
public:
  /// Environment variable with the name of the file.
  static constexpr const char* variable = "TROUPE_FAULTS_FIRED";

  /// @param file must exist. Empty: notes are kept by no file.
  explicit fault_notes(std::filesystem::path file = {})
    : file_{std::move(file)} {}

  /// Returns the notes that the environment names.
  static fault_notes from_environment();

  /// Notes that a fault has occurred in a process.
  void note(std::size_t index, std::uint32_t process) const noexcept;

  /// Returns the indices of the faults that have occurred in any process.
  std::set<std::size_t> read() const;

private:
  std::filesystem::path file_;
};

} // namespace troupe::injection
