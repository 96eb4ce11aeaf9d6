#pragma once

#include "troupe/apps/troupe/launcher/child_processes.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

/// Collects the output of the processes of a run. Results, progress and lines
/// of the leader are written unchanged; another line of another process is
/// prefixed with the name of the process. A line that begins with a carriage
/// return is a bar, which replaces the bar before. The error line of each
/// process is not written but kept for `failure_text`.
class output_collector {
public:
  /// @param leader Returns the name of the process that leads.
  explicit output_collector(std::function<std::string()> leader)
    : leader_{std::move(leader)} {}
  ~output_collector() { clear_bar(); }
  output_collector(const output_collector&) = delete;
  output_collector& operator=(const output_collector&) = delete;

  void add_line(const std::string& name, bool out, std::string_view line);

  /// Says how a process has ended: with its error, or by a signal.
  std::string end_text(const process_exit& ended) const;
  /// The same, with the error of another process if this one has written none.
  std::string failure_text(const process_exit& ended) const;

private:
  void clear_bar();

  /// Columns of the bar that is shown. Zero: none.
  std::size_t bar_columns_ = 0;
  std::function<std::string()> leader_;
  std::map<std::string, std::string> errors_; ///< By process.
};

/// If standard error is a terminal, lets a process write bars for the
/// collector.
void add_progress_columns(environment_changes& variables);
