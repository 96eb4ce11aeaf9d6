#include "troupe/training/parameter_server/training_layout.hpp"

#include "troupe/training/parameter_server/parameter_servers.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

training_layout::training_layout(std::vector<server_variable> variables)
  : variables_{std::move(variables)} {
  if (variables_.empty())
    throw std::invalid_argument("a training without variables");
  for (const auto& one : variables_)
    if (one.state()->servers != variables_.front().state()->servers)
      throw std::logic_error("the variables \"" + variables_.front().name()
                             + "\" and \"" + one.name()
                             + "\" are of two strategies");
  parts_.resize(variables_.front().state()->servers->options().servers);
  indices_.resize(variables_.size());
  for (std::uint32_t v = 0; v < variables_.size(); ++v) {
    const auto count = variables_[v].servers().size();
    indices_[v].resize(count);
    for (std::uint32_t i = 0; i < count; ++i)
      parts_[shard_of({v, i})].push_back({v, i});
  }
  const auto number = [this](const variable_part& x) {
    return variables_[x.variable].state()->parts[x.part].part;
  };
  for (auto& all : parts_) {
    std::ranges::sort(all, {}, number);
    for (std::uint32_t index = 0; index < all.size(); ++index)
      indices_[all[index].variable][all[index].part] = index;
  }
}

parameter_server::training training_layout::training_of(
  std::uint32_t shard, std::uint64_t number, std::uint32_t replicas,
  std::span<const parameter_server::consistency> rules) const {
  parameter_server::training out{number, replicas, {}};
  for (const auto& x : parts_[shard])
    out.parts.push_back(
      {variables_[x.variable].state()->parts[x.part].part, rules[x.variable]});
  return out;
}

} // namespace troupe
