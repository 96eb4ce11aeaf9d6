#include "troupe/strategies/placement.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace troupe {

namespace {

constexpr auto no_process = ~std::uint32_t{0};

placement::id_list consecutive_ids(std::uint32_t first, std::uint32_t count) {
  placement::id_list ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

} // namespace

placement::placement(std::uint32_t replicas)
  : placement{std::vector<id_list>{consecutive_ids(0, replicas)}} {}

placement::placement(std::vector<id_list> replicas_by_process)
  : replicas_{std::move(replicas_by_process)} {
  std::size_t count = 0;
  for (const auto& ids : replicas_)
    count += ids.size();
  processes_.assign(count, no_process);
  indices_.resize(count);
  for (std::uint32_t p = 0; p < processes(); ++p) {
    auto& ids = replicas_[p];
    std::ranges::sort(ids);
    for (std::uint32_t i = 0; i < ids.size(); ++i) {
      if (ids[i] >= count || processes_[ids[i]] != no_process)
        throw std::logic_error(
          "a placement of " + std::to_string(count) + " replicas on "
          + std::to_string(processes()) + " processes puts replica "
          + std::to_string(ids[i]) + " on process " + std::to_string(p)
          + ", although the replica "
          + (ids[i] >= count ? "does not exist" : "has a process already"));
      processes_[ids[i]] = p;
      indices_[ids[i]] = i;
    }
  }
}

placement placement::contiguous(const std::vector<std::uint32_t>& counts) {
  std::vector<id_list> replicas_by_process;
  std::uint32_t first = 0;
  for (const auto count : counts) {
    replicas_by_process.push_back(consecutive_ids(first, count));
    first += count;
  }
  return placement{std::move(replicas_by_process)};
}

std::vector<replica_range> placement::ranges_of(std::uint32_t process) const {
  std::vector<replica_range> out;
  for (const auto id : replicas_of(process))
    if (!out.empty() && out.back().end == id)
      ++out.back().end;
    else
      out.push_back({id, id + 1});
  return out;
}

} // namespace troupe
