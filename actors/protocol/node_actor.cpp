#include "troupe/actors/protocol/node_actor.hpp"

#include "troupe/net/base/text.hpp"

#include <cstdio>

namespace troupe {

namespace {

/// Returns each name with its count, such as "2 counter, 1 trainer".
std::string counted_names(const std::vector<std::string>& names) {
  std::map<std::string, std::size_t> counts;
  for (const auto& one : names)
    ++counts[one];
  std::string text;
  for (const auto& [name, count] : counts)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " "
            + net::printable(name);
  return text.empty() ? "none" : text;
}

} // namespace

std::string name_list(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& one : names)
    text += (text.empty() ? "" : ", ") + net::printable(one);
  return text.empty() ? "none" : text;
}

std::string to_text(const node_info& info) {
  char numbers[120];
  std::snprintf(
    numbers, sizeof numbers, "up       %.1f s\nload     %.2f\nclients  %u\n",
    static_cast<double>(info.uptime_ms) / 1000, info.load, info.clients);
  char incarnation[17];
  std::snprintf(incarnation, sizeof incarnation, "%016llx",
                static_cast<unsigned long long>(info.incarnation));
  return "node     " + net::printable(info.name) + ", incarnation "
         + incarnation + ", troupe " + net::printable(info.version) + "\n"
         + numbers + "devices  " + name_list(info.devices) + "\nroles    "
         + name_list(info.roles) + "\nrunning  " + counted_names(info.running)
         + "\n";
}

} // namespace troupe
