#include "troupe/actors/flight/decision.hpp"

#include "troupe/net/base/text.hpp"

#include <algorithm>
#include <cstdio>

namespace troupe {

namespace {

std::string name_of(const flight_identity& identity, std::uint32_t task) {
  return task < identity.names.size() ? identity.names[task]
                                      : "process " + std::to_string(task);
}

/// Returns a - b. Zero if a is smaller, or if the difference does not fit: the
/// times of a record may be anything.
std::int64_t difference(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  return __builtin_sub_overflow(a, b, &out) || out < 0 ? 0 : out;
}

/// Adds events to the list of decisions, one after the other.
class decision_list {
public:
  explicit decision_list(const flight_identity& identity)
    : identity_{identity} {}

  void add(const flight_event& x) {
    switch (x.kind) {
      case flight_event_kind::view_change_begun:
        changes_.push_back({all.size(), x.view, x.time_ns});
        all.push_back(
          {"view change begun: " + x.text, x.time_ns, 0, false, {}});
        return;
      case flight_event_kind::replicas_stopped:
      case flight_event_kind::lanes_opened:
      case flight_event_kind::positions_gathered:
      case flight_event_kind::state_copied:
        return add_phase(x, to_string(x.kind));
      case flight_event_kind::view_agreed:
        return add_phase(x, "view " + std::to_string(x.view) + " agreed ("
                              + x.text + ")");
      case flight_event_kind::view_entered:
        add_phase(x, to_string(x.kind));
        return end(x.view);
      case flight_event_kind::no_majority:
        add_phase(x, "no majority (no answer from " + x.text + ")");
        return;
      case flight_event_kind::excluded:
        end(x.view);
        return add_line(x, "this process does not belong to view "
                             + std::to_string(x.view));
      case flight_event_kind::disconnected:
        return add_line(x, "the connection to " + name_of(identity_, x.process)
                             + " ended: " + x.text);
      case flight_event_kind::process_lost:
        return name_loss(x);
      case flight_event_kind::process_left:
        return add_line(x, name_of(identity_, x.process) + " left the job");
      case flight_event_kind::process_joined:
        return add_line(x, name_of(identity_, x.process) + " joined with view "
                             + std::to_string(x.view));
      case flight_event_kind::process_restarted:
        return add_line(x,
                        name_of(identity_, x.process) + " was started again");
      case flight_event_kind::run_failed:
        return add_line(x,
                        "run " + std::to_string(x.run) + " failed: " + x.text);
      default:
        return;
    }
  }

  std::vector<decision> all;

private:
  /// A view change that has begun and not ended.
  struct open_change {
    std::size_t index = 0;    ///< Index of the decision.
    std::uint64_t before = 0; ///< Id of the view that it changes.
    std::int64_t last_ns = 0; ///< Time of its last phase.
  };

  /// Adds a phase to the last change to which it belongs. The next change may
  /// have begun before the processes have entered the view of this one.
  void add_phase(const flight_event& x, std::string name) {
    const bool stops = x.kind == flight_event_kind::replicas_stopped
                       || x.kind == flight_event_kind::no_majority;
    const auto change = std::find_if(
      changes_.rbegin(), changes_.rend(), [&](const open_change& y) {
        return x.view == 0 || (stops ? y.before <= x.view : y.before < x.view);
      });
    if (change == changes_.rend())
      return;
    const auto since = difference(x.time_ns, change->last_ns);
    all[change->index].phases.push_back(
      {std::move(name), static_cast<std::uint64_t>(since) / 1000, x.bytes});
    change->last_ns = x.time_ns;
  }

  /// A process that was told of a change may not know its reason when the
  /// change begins. The agreed view says who was lost.
  void name_loss(const flight_event& x) {
    const auto change =
      std::find_if(changes_.rbegin(), changes_.rend(),
                   [&](const open_change& y) { return y.before < x.view; });
    if (change == changes_.rend())
      return;
    auto& text = all[change->index].text;
    const auto name = name_of(identity_, x.process);
    if (text.find(name + " was ") == std::string::npos)
      text += "; " + name + " was lost";
  }

  /// The changes of the views before this one have ended.
  void end(std::uint64_t view) {
    std::erase_if(changes_, [&](const open_change& y) {
      const bool ends = view == 0 || y.before < view;
      if (ends)
        all[y.index].complete = true;
      return ends;
    });
  }

  void add_line(const flight_event& x, std::string text) {
    all.push_back({std::move(text), x.time_ns, 0, true, {}});
  }

  const flight_identity& identity_;
  std::vector<open_change> changes_; ///< In the order of their beginning.
};

} // namespace

std::vector<decision> decisions_of(std::span<const flight_event> events,
                                   const flight_identity& identity,
                                   std::int64_t now_ns,
                                   std::size_t max_decisions) {
  decision_list list{identity};
  for (const auto& x : events)
    list.add(x);
  auto& all = list.all;
  if (all.size() > max_decisions)
    all.erase(all.begin(), all.end() - std::ptrdiff_t(max_decisions));
  for (auto& x : all)
    x.ago_ms =
      static_cast<std::uint64_t>(difference(now_ns, x.time_ns) / 1'000'000);
  return std::move(all);
}

std::string milliseconds_text(std::uint64_t duration_us) {
  char text[48];
  std::snprintf(text, sizeof text, "%.1f ms",
                static_cast<double>(duration_us) / 1000);
  return text;
}

std::string to_text(const decision& x) {
  char ago[48];
  std::snprintf(ago, sizeof ago,
                "%.3f s ago: ", static_cast<double>(x.ago_ms) / 1000);
  auto out = ago + x.text;
  std::uint64_t total = 0;
  for (const auto& phase : x.phases) {
    out += (total == 0 && &phase == &x.phases.front() ? "; " : ", ")
           + phase.name + " " + milliseconds_text(phase.duration_us);
    if (phase.bytes > 0)
      out += " (" + std::to_string(phase.bytes) + " bytes)";
    total += phase.duration_us;
  }
  if (!x.phases.empty())
    out += "; total " + milliseconds_text(total);
  if (!x.complete)
    out += "; it has not ended";
  return net::printable(out, net::max_sentence_bytes);
}

} // namespace troupe
