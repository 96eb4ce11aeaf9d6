#include "troupe/actors/flight/flight_timeline.hpp"
#include "troupe/apps/troupe/base/command.hpp"
#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/training/support/flight_file.hpp"

#include <iostream>
#include <memory>
#include <stdexcept>

namespace {

struct explain_options {
  std::vector<std::string> files;
  bool all_events = false;
};

/// Reads the files. All must be records of different lives of one job's
/// processes.
std::vector<troupe::flight_record> read_all(const explain_options& options) {
  std::vector<troupe::flight_record> out;
  for (const auto& file : options.files) {
    auto record = troupe::read_flight_file(file);
    for (const auto& other : out) {
      if (other.identity.job != record.identity.job)
        throw std::invalid_argument(
          file + ": it is of the job "
          + troupe::net::printable(record.identity.job) + ", but "
          + options.files.front() + " of the job "
          + troupe::net::printable(other.identity.job)
          + "; give files of one job");
      if (other.identity.incarnation == record.identity.incarnation
          && other.identity.task == record.identity.task)
        throw std::invalid_argument(
          file
          + ": it is of the same process as another file; give one file "
            "of each process");
    }
    out.push_back(std::move(record));
  }
  return out;
}

int show(const explain_options& options) {
  std::cout << troupe::timeline_text(read_all(options),
                                     {.all_events = options.all_events});
  return ok;
}

} // namespace

void add_explain(CLI::App& tool, action& selected) {
  auto& command = *tool.add_subcommand(
    "explain", "Show what happened in the processes of a failed job");
  command.footer(
    "Examples:\n"
    "  troupe explain troupe-flight-*.bin\n"
    "  troupe explain --all troupe-flight-job-0-*.bin\n"
    "\n"
    "A process of a job that fails writes its last 10,000 events to the file\n"
    "troupe-flight-JOB-TASK-INCARNATION.bin. The directory is that of "
    "TROUPE_FLIGHT_DIR;\nby default, troupe train writes beside --save, or "
    "into the working directory, as\ntroupe launch does. Give the files of all "
    "processes to see one timeline.\n");
  const auto options = std::make_shared<explain_options>();
  command.add_option("FILE", options->files, "Files of one job")->required();
  command.add_flag("--all", options->all_events,
                   "Show each event, also each commit and grant of steps");
  command.callback(
    [options, &selected] { selected = [options] { return show(*options); }; });
}
