#include "troupe/strategies/step_commit/stall_report.hpp"

#include <algorithm>

namespace troupe::step_commit {

namespace {

std::string describe_wait(const wait_report& report) {
  const auto role =
    (report.reducer ? "reducer " : "replica ") + std::to_string(report.id);
  const auto bucket = " of bucket " + std::to_string(report.bucket);
  const auto misses = report.missing.empty()
                        ? ""
                        : ", still missing " + replica_list(report.missing);
  switch (report.current_activity) {
    case activity::all_reduce:
      return role + " waits for the sum" + bucket + misses;
    case activity::all_gather:
      return role + " waits in the gather" + bucket + misses;
    case activity::reducing:
      return role + " cannot finish the sum" + bucket + misses;
    case activity::computing:
      return role + " is in its step function";
    case activity::idle:
      break;
  }
  return role + " has nothing to do";
}

} // namespace

std::string replica_list(std::span<const std::uint32_t> ids) {
  std::string text = ids.size() == 1 ? "replica " : "replicas ";
  for (std::size_t i = 0; i < ids.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(ids[i]);
  return text;
}

std::string describe_stall(std::span<const wait_report> reports,
                           std::span<const std::uint32_t> behind,
                           std::span<const std::uint32_t> silent) {
  std::string text;
  const auto add = [&](const std::string& part) {
    text += (text.empty() ? "" : "; ") + part;
  };
  for (const auto& x : reports) {
    const bool done = !x.reducer && !std::ranges::count(behind, x.id);
    if (x.current_activity != activity::idle || (!x.reducer && !done))
      add(describe_wait(x));
  }
  std::vector<std::uint32_t> stuck;
  for (const auto r : behind)
    if (std::ranges::count(silent, r))
      stuck.push_back(r);
  if (!stuck.empty())
    add(replica_list(stuck)
        + (stuck.size() == 1
             ? " does not answer: it is in the step function, or its process "
               "is stopped"
             : " do not answer: they are in the step function, or their "
               "processes are stopped"));
  return text;
}

} // namespace troupe::step_commit
