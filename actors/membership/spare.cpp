#include "troupe/actors/membership/spare.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/net/io/socket_address.hpp"

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace troupe {

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto check_interval = 100ms;

/// True if another process listens on one of the addresses.
/// @errors throws std::runtime_error for another problem.
bool is_in_use(const net::address& address) {
  const auto candidates = net::resolve(address);
  auto problem = candidates.problem;
  for (const auto& one : candidates.found) {
    if (net::listen_on(one))
      continue;
    if (errno == EADDRINUSE)
      return true;
    problem = std::generic_category().message(errno);
  }
  if (!problem.empty())
    throw std::runtime_error("a spare cannot listen on "
                             + net::to_string(address) + ": " + problem);
  return false;
}

} // namespace

void wait_as_spare(const net::address& address, const std::string& task,
                   std::chrono::milliseconds timeout,
                   const net::log_function& log) {
  const auto end = clock::now() + timeout;
  for (bool has_logged = false; is_in_use(address); has_logged = true) {
    if (!has_logged && log)
      log(net::severity::warning,
          "this process is a spare: it waits for the end of the process that "
          "is "
            + task + " and listens on " + net::to_string(address));
    if (clock::now() >= end)
      throw job_error(ec::stalled, "a spare for " + task + " was not needed: "
                                     + net::to_string(address)
                                     + " was in use for "
                                     + std::to_string(timeout.count()) + " ms");
    std::this_thread::sleep_for(check_interval);
  }
}

} // namespace troupe
