#include "server_lives.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/node/remote_node.hpp"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

/// Time between attempts to connect to servers.
constexpr auto look_interval = 20ms;

} // namespace

std::optional<std::uint64_t> find_process(runtime& actors,
                                          const std::string& address) {
  try {
    return remote_node{actors, address, {.name = "chief"}}.incarnation();
  } catch (const job_error& e) {
    if (e.code != ec::peer_lost && e.code != ec::unreachable)
      throw;
    return std::nullopt;
  }
}

server_lives::server_lives(runtime& actors, std::vector<std::string> addresses,
                           std::uint64_t max_losses)
  : actors_{actors},
    addresses_{std::move(addresses)},
    max_losses_{max_losses} {}

std::vector<server_lives::life> server_lives::look() const {
  std::vector<life> out;
  for (const auto& one : addresses_)
    out.push_back(find_process(actors_, one));
  return out;
}

void server_lives::note() {
  noted_ = look();
  const auto found = std::ranges::find(noted_, life{});
  if (found != noted_.end()) {
    const auto server = static_cast<std::size_t>(found - noted_.begin());
    throw job_error{ec::peer_lost, "parameter server " + std::to_string(server)
                                     + " at " + addresses_[server]
                                     + " cannot be reached"};
  }
}

bool server_lives::has_loss() const {
  return look() != noted_;
}

std::optional<std::vector<std::size_t>>
server_lives::wait_for_all(clock::time_point end,
                           const std::function<bool()>& is_stopped) {
  std::set<std::size_t> lost;
  for (;;) {
    auto now = look();
    for (std::size_t i = 0; i < now.size(); ++i)
      if (now[i] != noted_[i])
        lost.insert(i);
    const auto count = std::max<std::uint64_t>(lost.size(), 1);
    if (losses_ + count > max_losses_)
      return std::nullopt;
    if (std::ranges::find(now, life{}) == now.end()) {
      noted_ = std::move(now);
      losses_ += count;
      return std::vector<std::size_t>{lost.begin(), lost.end()};
    }
    if (is_stopped() || clock::now() >= end)
      return std::nullopt;
    std::this_thread::sleep_for(look_interval);
  }
}
