#pragma once

#include "child_processes.hpp"

#include <functional>
#include <map>
#include <string>
#include <string_view>

/// Collects the output of the processes of a run. Results, progress and lines
/// of the leader are written unchanged; another line of another process is
/// prefixed with the name of the process. The error line of each process is not
/// written but kept for `failure_text`.
class output_collector {
public:
  /// @param leader Returns the name of the process that leads.
  explicit output_collector(std::function<std::string()> leader)
    : leader_{std::move(leader)} {}

  void add_line(const std::string& name, bool out, std::string_view line);

  /// Says how a process has ended: with its error, or by a signal.
  std::string end_text(const process_exit& ended) const;
  /// The same, with the error of another process if this one has written none.
  std::string failure_text(const process_exit& ended) const;

private:
  std::function<std::string()> leader_;
  std::map<std::string, std::string> errors_; ///< By process.
};
