#include "troupe/actors/flight/flight_timeline.hpp"

#include "troupe/actors/flight/decision.hpp"
#include "troupe/net/base/text.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace troupe {

namespace {

using std::to_string;

/// Returns a + b, or the nearest number that fits. A record may have any times.
std::int64_t sum_of(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (!__builtin_add_overflow(a, b, &out))
    return out;
  return b > 0 ? std::numeric_limits<std::int64_t>::max()
               : std::numeric_limits<std::int64_t>::min();
}

std::string seconds_text(double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6f s", seconds);
  return text;
}

std::string printable_name_of(const flight_identity& identity,
                              std::uint32_t task) {
  return net::printable(task < identity.names.size()
                          ? identity.names[task]
                          : "process " + to_string(task));
}

/// The runs of a record whose steps are operations that the user does not
/// count.
class operation_runs {
public:
  explicit operation_runs(const flight_record& of) {
    for (const auto& x : of.events)
      if (x.kind == flight_event_kind::run_begun && !x.text.empty())
        all_.emplace(x.view, x.run);
  }
  /// Returns "step" or "operation".
  std::string word_for(const flight_event& x) const {
    return all_.contains({x.view, x.run}) ? "operation" : "step";
  }

private:
  std::set<std::pair<std::uint64_t, std::uint64_t>> all_; ///< By view and run.
};

/// Returns what follows the kind of an event: its numbers and its text.
/// @param word for a step of the event's run.
std::string details_of(const flight_event& x, const flight_identity& identity,
                       const std::string& word) {
  std::string out;
  const auto add = [&out](const std::string& part) { out += ", " + part; };
  switch (x.kind) {
    case flight_event_kind::run_begun:
      add("run " + to_string(x.run));
      break;
    case flight_event_kind::step_committed:
    case flight_event_kind::run_ended:
    case flight_event_kind::run_failed:
    case flight_event_kind::role_missing:
    case flight_event_kind::suspicion:
      add("run " + to_string(x.run) + ", " + word + ' ' + to_string(x.step));
      break;
    case flight_event_kind::steps_granted:
      add("run " + to_string(x.run) + ", up to " + word + ' '
          + to_string(x.step));
      break;
    case flight_event_kind::generation_begun:
      add("generation " + to_string(x.generation));
      break;
    case flight_event_kind::view_agreed:
    case flight_event_kind::lanes_opened:
    case flight_event_kind::view_entered:
    case flight_event_kind::excluded:
      add("view " + to_string(x.view));
      break;
    default:
      break;
  }
  if (x.replica != flight_event::none)
    add("replica " + to_string(x.replica));
  if (x.process != flight_event::none)
    add(printable_name_of(identity, x.process));
  if (x.bytes > 0)
    add(to_string(x.bytes) + " bytes");
  if (x.duration_ns > 0)
    add(milliseconds_text(x.duration_ns / 1000));
  if (!x.text.empty())
    out += ": " + net::printable(x.text);
  return out;
}

struct line {
  std::int64_t time_ns = 0; ///< Time of the wall clock.
  std::size_t record = 0;   ///< Index of its process.
  std::string text;
};

/// Adds the lines of one record.
void add_lines(const flight_record& of, std::size_t index,
               const timeline_options& options, std::vector<line>& out) {
  const operation_runs operations{of};
  const flight_event* first_commit = nullptr;
  const flight_event* last_commit = nullptr;
  const auto time_of = [&](const flight_event& x) {
    return sum_of(of.identity.wall_ns, x.time_ns);
  };
  const auto add = [&](const flight_event& x) {
    out.push_back(
      {time_of(x), index,
       to_string(x.kind) + details_of(x, of.identity, operations.word_for(x))});
  };
  const auto end_commits = [&] {
    if (last_commit && last_commit != first_commit)
      out.push_back({time_of(*last_commit), index,
                     operations.word_for(*last_commit) + "s "
                       + to_string(first_commit->step) + " to "
                       + to_string(last_commit->step) + " committed, run "
                       + to_string(last_commit->run)});
    else if (last_commit)
      add(*last_commit);
    first_commit = last_commit = nullptr;
  };
  for (const auto& x : of.events) {
    if (options.all_events) {
      add(x);
    } else if (x.kind == flight_event_kind::step_committed) {
      if (last_commit && last_commit->run != x.run)
        end_commits();
      last_commit = &x;
      first_commit = first_commit ? first_commit : &x;
    } else if (x.kind != flight_event_kind::steps_granted) {
      end_commits();
      add(x);
    }
  }
  end_commits();
}

/// Names of the records: those of their processes, with the incarnation if two
/// records are of the same task.
std::vector<std::string> titles_of(std::span<const flight_record> records) {
  std::map<std::uint32_t, int> lives;
  for (const auto& x : records)
    ++lives[x.identity.task];
  std::vector<std::string> out;
  for (const auto& x : records) {
    auto name = printable_name_of(x.identity, x.identity.task);
    if (lives[x.identity.task] > 1) {
      char text[32];
      std::snprintf(text, sizeof text, " (%016" PRIx64 ")",
                    x.identity.incarnation);
      name += text;
    }
    out.push_back(std::move(name));
  }
  return out;
}

/// Says which roles were missing when the runs of a process failed, and since
/// when.
std::string missing_text(const flight_record& of, std::int64_t begin_ns) {
  const operation_runs operations{of};
  std::string out;
  const flight_event* progress = nullptr;
  for (const auto& x : of.events) {
    if (x.kind == flight_event_kind::step_committed
        || x.kind == flight_event_kind::run_begun)
      progress = &x;
    if (x.kind != flight_event_kind::role_missing)
      continue;
    out += "  missing: ";
    if (x.replica != flight_event::none)
      out += "replica " + to_string(x.replica) + " of ";
    const auto step = operations.word_for(x) + ' ' + to_string(x.step);
    out += printable_name_of(of.identity, x.process) + ", in "
           + net::printable(x.text)
           + (x.text.find(step) != x.text.npos ? "" : ", " + step);
    if (progress) {
      const auto since = sum_of(of.identity.wall_ns, progress->time_ns);
      out +=
        "; no progress for "
        + seconds_text((double(x.time_ns) - double(progress->time_ns)) / 1e9)
        + ", since " + seconds_text((double(since) - double(begin_ns)) / 1e9);
    }
    out += '\n';
  }
  return out;
}

std::string summary_of(const flight_record& of, const std::string& title,
                       std::int64_t begin_ns) {
  auto out =
    title + ": "
    + (of.error.empty() ? "no error"
                        : net::printable(of.error, net::max_sentence_bytes))
    + "\n";
  if (of.recorded > of.events.size())
    out += "  " + to_string(of.recorded - of.events.size())
           + " older events are not in the record\n";
  const auto commit =
    std::ranges::find(of.events.rbegin(), of.events.rend(),
                      flight_event_kind::step_committed, &flight_event::kind);
  if (commit != of.events.rend())
    out +=
      "  last commit: " + operation_runs{of}.word_for(*commit) + ' '
      + to_string(commit->step) + " of run " + to_string(commit->run) + ", "
      + seconds_text((double(of.written_ns) - double(commit->time_ns)) / 1e9)
      + " before the record was written\n";
  out += missing_text(of, begin_ns);
  for (const auto& x : decisions_of(of.events, of.identity, of.written_ns, 32))
    out += "  decision " + to_text(x) + "\n";
  return out;
}

} // namespace

std::string timeline_text(std::span<const flight_record> records,
                          const timeline_options& options) {
  const auto titles = titles_of(records);
  std::size_t widest = 7;
  for (const auto& x : titles)
    widest = std::max(widest, x.size());
  std::vector<line> lines;
  for (std::size_t i = 0; i < records.size(); ++i)
    add_lines(records[i], i, options, lines);
  std::ranges::stable_sort(lines, {}, &line::time_ns);
  const auto begin = lines.empty() ? 0 : lines.front().time_ns;
  auto out = "job " + net::printable(records.front().identity.job)
             + "\n        time  process" + std::string(widest - 7, ' ')
             + "  event\n";
  for (const auto& x : lines) {
    char time[64];
    std::snprintf(time, sizeof time, "%10.6f s  ",
                  (double(x.time_ns) - double(begin)) / 1e9);
    const auto& title = titles[x.record];
    out += time + title + std::string(widest - title.size(), ' ') + "  "
           + x.text + "\n";
  }
  out += "\nsummary\n";
  std::set<std::uint32_t> present;
  for (std::size_t i = 0; i < records.size(); ++i) {
    present.insert(records[i].identity.task);
    out += summary_of(records[i], titles[i], begin);
  }
  const auto& names = records.front().identity;
  for (std::uint32_t task = 0; task < names.names.size(); ++task)
    if (!present.contains(task))
      out += printable_name_of(names, task) + ": no record was given\n";
  return out;
}

} // namespace troupe
