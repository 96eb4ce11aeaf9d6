#include "troupe/actors/protocol/job_status.hpp"

#include "troupe/net/base/text.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <ostream>

namespace troupe {

namespace {

template <class... Ts>
std::string line(const char* format, Ts... xs) {
  char text[160];
  std::snprintf(text, sizeof text, format, xs...);
  return text;
}

std::string seconds(std::uint64_t ms) {
  return line("%.1f s", static_cast<double>(ms) / 1000);
}

std::string members_text(const job_status& status) {
  std::size_t widest = 6;
  std::vector<std::string> names;
  for (const auto& one : status.members) {
    names.push_back(net::printable(one.name));
    widest = std::max(widest, names.back().size());
  }
  auto text = "member" + std::string(widest - 6, ' ')
              + "  state        incarnation       last contact\n";
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& member = status.members[i];
    text += names[i] + std::string(widest - names[i].size(), ' ')
            + line("  %-11s  %016" PRIx64 "  ", to_string(member.state).c_str(),
                   member.incarnation)
            + (member.state == member_state::absent
                 ? "never"
                 : seconds(member.since_contact_ms) + " ago")
            + "\n";
  }
  return text;
}

/// Returns a line such as "missing for 2.4 s: replica 1 of worker 1, for the
/// sum of bucket 3; it does not answer".
std::string missing_text(const missing_role& x, bool names_process) {
  std::string who = net::printable(x.process);
  if (x.replica != missing_role::none)
    who = "replica " + std::to_string(x.replica)
          + (names_process ? " of " + who : "");
  return "missing for " + seconds(x.since_ms) + ": " + who + ", in "
         + net::printable(x.operation)
         + (x.responds ? "\n" : "; it does not answer\n");
}

} // namespace

std::string to_string(member_state x) {
  switch (x) {
    case member_state::joining:
      return "joining";
    case member_state::active:
      return "active";
    case member_state::unreachable:
      return "unreachable";
    case member_state::lost:
      return "lost";
    case member_state::left:
      return "left";
    case member_state::absent:
      return "absent";
  }
  return "?";
}

std::string to_text(const job_status& status) {
  auto text =
    "job " + net::printable(status.job)
    + (status.view_id > 1 ? ", view " + std::to_string(status.view_id) : "")
    + ", generation " + std::to_string(status.generation) + ", "
    + step_name(status.operation, status.step);
  if (status.window_ms > 0)
    text += line(", %.4g steps/s over ", status.steps_per_second)
            + seconds(status.window_ms) + ", last commit "
            + seconds(status.since_commit_ms) + " ago";
  text += "\n";
  if (!status.members.empty())
    text += members_text(status);
  if (!status.stall_reason.empty())
    text += step_name(status.operation, status.step) + " is not done: "
            + net::printable(status.stall_reason, net::max_sentence_bytes)
            + "\n";
  for (const auto& x : status.missing)
    text += missing_text(x, status.members.size() > 1);
  for (const auto& x : status.decisions)
    text += to_text(x) + "\n";
  return text;
}

std::ostream& operator<<(std::ostream& out, const job_status& status) {
  return out << to_text(status);
}

} // namespace troupe
