#pragma once

#include "troupe/actors/faults/fault_plan.hpp"
#include "troupe/apps/troupe/launcher/child_processes.hpp"

#include <filesystem>
#include <string>

/// The faults that a launcher lets its processes inject into their job, and a
/// report of those that have occurred. The destructor removes the file in which
/// the processes note them.
class fault_report {
public:
  /// @param file  plan of the faults. Empty: there are none.
  /// @param scope of the job.
  /// @errors throws std::invalid_argument if the plan is invalid or does not
  ///         fit the job, std::runtime_error if a file cannot be read or made.
  fault_report(const std::string& file,
               const troupe::injection::plan_scope& scope);
  ~fault_report();
  fault_report(const fault_report&) = delete;
  fault_report& operator=(const fault_report&) = delete;

  /// Adds the variables with which a process finds the plan.
  void add_to(environment_changes& variables) const;

  /// Writes to standard error how many faults have occurred, and which have
  /// not. No effect without a plan.
  void print() const;

private:
  std::filesystem::path file_;  ///< Empty: no plan.
  std::filesystem::path notes_; ///< In the directory for temporary files.
  troupe::injection::faults plan_;
};
