#include "troupe/strategies/audit_vote.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace troupe {

bool are_equal(std::span<const copy_report> reports) {
  return std::ranges::all_of(reports, [&](const copy_report& x) {
    return x.hash == reports.front().hash;
  });
}

audit_result count_votes(std::span<const copy_report> reports) {
  // Replicas that share a copy and report different hashes have read it at
  // different times. Then each of these values has a vote.
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>> votes;
  for (const auto& x : reports)
    if (x.has_vote)
      votes.insert({x.process, x.copy, x.hash});
  std::map<std::uint64_t, std::size_t> counts;
  for (const auto& vote : votes)
    ++counts[std::get<2>(vote)];
  audit_result out;
  for (const auto& [hash, count] : counts)
    if (2 * count > votes.size()) {
      out.has_majority = true;
      out.majority = hash;
    }
  if (are_equal(reports))
    return out;
  for (const auto& x : reports)
    if (!out.has_majority || x.hash != out.majority)
      out.deviating.push_back(x);
  return out;
}

} // namespace troupe
