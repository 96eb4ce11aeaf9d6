#include "troupe/apps/troupe/launcher/output_collector.hpp"

#include "troupe/training/loop/options/progress.hpp"

#include <iostream>
#include <utility>

void output_collector::add_line(const std::string& name, bool out,
                                std::string_view line) {
  constexpr std::string_view error = "troupe: ";
  if (!out && line.starts_with(error)) {
    errors_[name] = line.substr(error.size());
    return;
  }
  if (!out && line.starts_with('\r')) {
    const auto columns = line.size() - 1;
    std::cerr << line;
    if (columns < bar_columns_)
      std::cerr << std::string(bar_columns_ - columns, ' ');
    std::cerr << std::flush;
    bar_columns_ = columns;
    return;
  }
  clear_bar();
  auto& stream = out ? std::cout : std::cerr;
  // Only the leader writes results and progress. A process that was started
  // again leads from the time at which it joins.
  if (!out && name != leader_() && !line.starts_with("epoch "))
    stream << '[' << name << "] ";
  stream << line << '\n' << std::flush;
}

void output_collector::clear_bar() {
  if (bar_columns_ > 0)
    std::cerr << '\r' << std::string(std::exchange(bar_columns_, 0), ' ')
              << '\r' << std::flush;
}

void add_progress_columns(environment_changes& variables) {
  if (const auto columns = troupe::terminal_columns())
    variables[troupe::progress_columns_variable] = std::to_string(*columns);
}

std::string output_collector::end_text(const process_exit& ended) const {
  const auto found = errors_.find(ended.name);
  return ended.name + ": "
         + (ended.signal == 0 && found != errors_.end() ? found->second
                                                        : reason(ended));
}

std::string output_collector::failure_text(const process_exit& ended) const {
  const auto text = end_text(ended);
  if (ended.signal == 0 && errors_.contains(ended.name))
    return text;
  // A signal ended the process, or it wrote no error. Append the error of
  // another one: it says in which step the first process was lost.
  for (const auto& [name, error] : errors_)
    if (name != ended.name)
      return text + "; " + name + ": " + error;
  return text;
}
