#include "troupe/actors/protocol/server_status_actor.hpp"

#include "troupe/net/base/text.hpp"
#include "troupe/strategies/parameter_server/gradient_staleness.hpp"

#include <algorithm>
#include <cstdio>

namespace troupe {

namespace {

std::string fixed(double x, const char* format) {
  char text[48];
  std::snprintf(text, sizeof text, format, x);
  return text;
}

std::string staleness_text(const shard_status& x) {
  if (x.gradients == 0)
    return "-";
  const parameter_server::gradient_staleness found{x.gradients, x.staleness_sum,
                                                   x.largest_staleness};
  return fixed(found.mean(), "%.2f") + ", " + std::to_string(found.largest);
}

using cells = std::vector<std::string>;

cells row_of(std::size_t number, const server_summary& x,
             std::uint32_t copies) {
  cells out{std::to_string(number),
            x.address.empty() ? "-" : net::printable(x.address),
            std::to_string(x.in_sync) + " of " + std::to_string(copies)};
  if (x.responds == 0) {
    out.emplace_back("does not answer");
    return out;
  }
  constexpr double mebibyte = 1024.0 * 1024.0;
  for (auto& one :
       cells{std::to_string(x.held.updates), staleness_text(x.held),
             std::to_string(x.held.waiting),
             fixed(static_cast<double>(x.held.bytes) / mebibyte, "%.1f MiB")})
    out.push_back(std::move(one));
  return out;
}

} // namespace

std::string to_text(const servers_summary& x) {
  std::vector<cells> rows{{"server", "address", "in sync", "updates",
                           "staleness (mean, largest)", "waiting", "memory"}};
  for (std::size_t i = 0; i < x.servers.size(); ++i)
    rows.push_back(row_of(i, x.servers[i], x.copies));
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  auto text = std::to_string(x.servers.size()) + " parameter servers, "
              + std::to_string(x.lost_servers) + " processes lost\n";
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      text += row[i]
              + (i + 1 == row.size()
                   ? "\n"
                   : std::string(widths[i] + 2 - row[i].size(), ' '));
  }
  return text;
}

} // namespace troupe
