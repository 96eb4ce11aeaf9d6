#include "troupe/apps/troupe/commands/server_lives.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/node/remote_node.hpp"
#include "troupe/apps/troupe/base/node_attempts.hpp"

#include <algorithm>
#include <thread>
#include <utility>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

/// What an attempt to connect to a server has found.
struct found_process {
  std::optional<std::uint64_t> incarnation{}; ///< None: it cannot be reached.
  bool has_ended = false; ///< No process listens at the address.

  /// True if the process with this incarnation has certainly ended.
  bool has_lost(std::uint64_t noted) const {
    return has_ended || (incarnation && *incarnation != noted);
  }
};

/// @errors throws `job_error` if there is a process that does not let this one
///         use it.
found_process find_process(runtime& actors, const std::string& address,
                           std::chrono::milliseconds timeout) {
  try {
    const remote_node found{
      actors, address, {.name = chief_client_name, .connect_timeout = timeout}};
    return {.incarnation = found.incarnation()};
  } catch (const job_error& e) {
    if (!may_come(e))
      throw;
    return {.has_ended = e.code == ec::peer_lost};
  }
}

constexpr std::chrono::milliseconds connect_timeout = 5s;
/// Timeout of an attempt that is repeated.
constexpr std::chrono::milliseconds attempt_timeout = 1s;

} // namespace

server_lives::server_lives(runtime& actors, std::vector<std::string> addresses,
                           std::uint64_t max_losses)
  : actors_{actors},
    addresses_{std::move(addresses)},
    max_losses_{max_losses} {}

void server_lives::note_incarnations() {
  std::vector<std::uint64_t> all;
  for (const auto& address : addresses_) {
    const auto found = find_process(actors_, address, connect_timeout);
    if (!found.incarnation)
      throw job_error{ec::peer_lost, "parameter server "
                                       + std::to_string(all.size()) + " at "
                                       + address + " cannot be reached"};
    all.push_back(*found.incarnation);
  }
  noted_ = std::move(all);
}

bool server_lives::has_loss() const {
  for (std::size_t i = 0; i < addresses_.size(); ++i)
    if (find_process(actors_, addresses_[i], connect_timeout).incarnation
        != noted_[i])
      return true;
  return false;
}

std::optional<std::vector<std::size_t>>
server_lives::wait_for_all(clock::time_point end,
                           const std::function<bool()>& is_stopped) {
  std::vector<found_process> now(addresses_.size());
  for (;;) {
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (now[i].incarnation)
        continue;
      if (is_stopped() || clock::now() >= end)
        return std::nullopt;
      now[i] = find_process(actors_, addresses_[i], attempt_timeout);
    }
    std::vector<std::size_t> lost;
    for (std::size_t i = 0; i < now.size(); ++i)
      if (now[i].has_lost(noted_[i]))
        lost.push_back(i);
    const auto count = std::max<std::uint64_t>(lost.size(), 1);
    if (losses_ + count > max_losses_)
      return std::nullopt;
    if (std::ranges::all_of(
          now, [](const auto& x) { return x.incarnation.has_value(); })) {
      for (std::size_t i = 0; i < now.size(); ++i)
        noted_[i] = *now[i].incarnation;
      losses_ += count;
      return lost;
    }
    std::this_thread::sleep_for(attempt_interval);
  }
}
