#include "troupe/strategies/step_commit/stall_report.hpp"

#include <algorithm>

namespace troupe::commit {

namespace {

std::string of_one(const blame& x) {
  const auto who = (x.reducer ? "reducer " : "replica ") + std::to_string(x.id);
  const auto bucket = " of bucket " + std::to_string(x.bucket);
  const auto misses =
    x.missing.empty() ? "" : ", still missing " + replicas_named(x.missing);
  switch (x.what) {
    case doing::sum:
      return who + " waits for the sum" + bucket + misses;
    case doing::gather:
      return who + " waits in the gather" + bucket + misses;
    case doing::adding:
      return who + " cannot finish the sum" + bucket + misses;
    case doing::computing:
      return who + " is in its step function";
    case doing::idle:
      break;
  }
  return who + " has nothing to do";
}

} // namespace

std::string replicas_named(std::span<const std::uint32_t> ids) {
  std::string text = ids.size() == 1 ? "replica " : "replicas ";
  for (std::size_t i = 0; i < ids.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(ids[i]);
  return text;
}

std::string explain(std::span<const blame> said,
                    std::span<const std::uint32_t> behind,
                    std::span<const std::uint32_t> silent) {
  std::string text;
  const auto add = [&](const std::string& part) {
    text += (text.empty() ? "" : "; ") + part;
  };
  for (const auto& x : said) {
    const bool done = !x.reducer && !std::ranges::count(behind, x.id);
    if (x.what != doing::idle || (!x.reducer && !done))
      add(of_one(x));
  }
  std::vector<std::uint32_t> stuck;
  for (const auto r : behind)
    if (std::ranges::count(silent, r))
      stuck.push_back(r);
  if (!stuck.empty())
    add(replicas_named(stuck)
        + (stuck.size() == 1
             ? " does not answer: it is in the step function, or its process "
               "is stopped"
             : " do not answer: they are in the step function, or their "
               "processes are stopped"));
  return text;
}

} // namespace troupe::commit
