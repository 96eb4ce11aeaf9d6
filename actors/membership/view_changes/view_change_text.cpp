#include "troupe/actors/membership/view_changes/view_change_text.hpp"

namespace troupe {

std::string describe(const view_change::change_reasons& why,
                     const std::map<std::uint32_t, std::string>& losses,
                     std::uint32_t self,
                     const std::vector<std::string>& names) {
  std::string out;
  const auto add = [&out](const std::string& reason) {
    out += (out.empty() ? "" : "; ") + reason;
  };
  for (const auto& [task, how] : losses)
    add(names.at(task) + " " + how);
  if (!out.empty())
    return out;
  const bool is_told = why.proposer && *why.proposer != self;
  for (const auto& [one, other] : why.unreachable)
    add((is_told && one == *why.proposer ? "it" : names.at(one))
        + " cannot reach " + names.at(other));
  for (const auto task : why.without_lanes)
    add(names.at(self) + " cannot open its lanes to " + names.at(task));
  for (const auto task : why.dead)
    add(names.at(task) + " has ended");
  for (const auto task : why.leaving)
    add(names.at(task) + " leaves");
  for (const auto task : why.joining)
    add(names.at(task) + " joins");
  if (why.renewal)
    add("a connection or a lane between two processes was cut");
  if (is_told)
    return names.at(*why.proposer) + " has begun a change of the view"
           + (out.empty() ? "" : ": " + out);
  return out.empty() ? "the processes of the job change their view" : out;
}

} // namespace troupe
