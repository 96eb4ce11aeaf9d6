#pragma once

#include "troupe/actors/flight/flight_record.hpp"

#include <span>
#include <string>

namespace troupe {

struct timeline_options {
  /// True: each event has a line. False: consecutive commits of a process are
  /// one line, and grants of steps have none.
  bool all_events = false;
};

/// Returns the events of several processes of a job as one timeline for people,
/// and then a summary. The summary says which processes have no record, why
/// each process failed, and what was decided. It also says who was missing in
/// which operation and step, and since when. The wall clocks of the processes
/// align their times, so the order of events of two hosts is as exact as these
/// clocks.
/// @pre there is at least one record.
std::string timeline_text(std::span<const flight_record> records,
                          const timeline_options& options = {});

} // namespace troupe
