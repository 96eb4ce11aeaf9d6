#include "troupe/net/base/text.hpp"
#include "troupe/training/remote/remote_strategy_impl.hpp"
#include "troupe/training/strategies/devices.hpp"
#include "troupe/training/strategies/reduce_op.hpp"

#include <algorithm>
#include <random>
#include <set>

// The workers of a client: spawning, requests, and failures.

namespace troupe {

using std::chrono::milliseconds;

namespace {

/// Returns a job name that is unique over all strategies and clients.
std::string new_job(const std::string& steps) {
  std::random_device dice;
  const auto number = std::uint64_t{dice()} << 32 | dice();
  return steps + " " + std::to_string(number);
}

} // namespace

// -- begin and end ------------------------------------------------------------

remote_strategy::impl::impl(runtime& on, const std::vector<std::string>& nodes,
                            const remote_strategy_options& options)
  : system{on.system()}, addresses{nodes}, options{options} {
  check();
  spawn(on);
  join();
}

remote_strategy::impl::~impl() {
  if (broken.empty())
    leave_all(system, workers, options.farewell);
  workers.clear();
}

void remote_strategy::impl::check() const {
  const auto refuse = [](const std::string& why) {
    throw std::invalid_argument("remote_strategy: " + why);
  };
  if (addresses.empty())
    refuse("the list of nodes is empty; give the address of at least one");
  if (options.steps.empty())
    refuse("steps is empty; give a name that the nodes registered");
  std::set<std::string> all;
  for (const auto& one : addresses) {
    net::parse_address(one);
    if (!all.insert(one).second)
      refuse("node " + one
             + " is given twice; name it once and give it more devices");
  }
  troupe::check(options.communication);
  check_threads(options.threads);
  if (options.devices.empty())
    refuse("devices is empty; give one for each replica of a node");
  for (const auto x : {options.patience, options.answers, options.farewell,
                       options.heartbeat, options.suspect})
    if (x < milliseconds{1} || x > std::chrono::hours{1})
      refuse("start_timeout, request_timeout, shutdown_timeout, "
             "heartbeat_interval and heartbeat_timeout must be 1 ms to "
             "1 h");
}

void remote_strategy::impl::spawn(runtime& on) {
  remote_options how;
  how.credentials = options.credentials ? *options.credentials
                                        : net::credentials_from_environment();
  how.answers = options.answers;
  how.heartbeat = options.heartbeat;
  how.suspect = options.suspect;
  worker_order order;
  order.job = new_job(options.steps);
  order.addresses = addresses;
  order.argument = options.argument;
  order.devices = options.devices;
  order.threads = options.threads;
  order.transport = options.transport;
  order.bytes_per_pack = options.communication.bytes_per_pack;
  order.timeout_ms =
    static_cast<std::uint64_t>(options.communication.timeout.count());
  order.callback_timeout_ms =
    static_cast<std::uint64_t>(options.communication.callback_timeout.count());
  order.patience_ms = static_cast<std::uint64_t>(options.patience.count());
  for (const auto& where : addresses)
    nodes.push_back(std::make_unique<remote_node>(on, where, how));
  for (const auto& one : nodes) {
    workers.push_back(
      one->spawn<worker_actor>(role_of_steps(options.steps), order));
    ++order.index;
  }
}

void remote_strategy::impl::join() {
  auto answers = join_all(system, workers, options.answers);
  const auto during = "starting \"" + options.steps + "\"";
  if (const auto bad = fault_among(answers))
    give_up(*bad, during);
  std::uint32_t first = 0;
  for (std::size_t w = 0; w < answers.size(); ++w) {
    auto& seat = seats.emplace_back(std::move(answers[w].news.seat));
    if (seat.first != first || seat.count != options.devices.size())
      give_up({w, ec::protocol, "it has other replicas than requested"},
              during);
    first += seat.count;
  }
}

void remote_strategy::impl::give_up(const worker_fault& x,
                                    const std::string& during) {
  broken = "node " + addresses[x.worker] + " (worker "
           + std::to_string(x.worker) + "), " + during + ": "
           + net::printable_lines(x.why);
  workers.clear();
  nodes.clear();
  throw failure{x.code, broken};
}

// -- work ---------------------------------------------------------------------

void remote_strategy::impl::check_left() const {
  if (!broken.empty())
    throw failure{ec::cancelled, "the nodes were given up after " + broken};
}

void remote_strategy::impl::check_usable(const std::vector<std::string>& known,
                                         std::string_view name,
                                         const char* verb) const {
  check_left();
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw std::invalid_argument("the steps \"" + options.steps + "\" have no \""
                                + std::string{name} + "\" to " + verb
                                + "; they have: " + listed(known));
}

std::vector<worker_answer> remote_strategy::impl::tell_all(worker_task&& x) {
  for (const auto& all : x.inputs)
    for (const auto& one : all)
      check_unrecorded(one);
  x.number = next++;
  auto answers = run_all(system, workers, x, options.answers);
  if (const auto bad = fault_among(answers))
    give_up(*bad,
            "function \"" + x.what + "\", step " + std::to_string(x.number));
  return answers;
}

/// Divides the results of a worker by replica.
std::vector<tensors> remote_strategy::impl::cut(std::size_t worker,
                                                const worker_answer& x,
                                                std::size_t parts) {
  std::uint64_t all = 0;
  for (const auto count : x.news.parts)
    all += count;
  if (x.news.parts.size() != parts || all != x.out.size())
    give_up(
      {worker, ec::protocol, "the tensor counts do not match the results"},
      "its results");
  std::vector<tensors> out;
  auto from = x.out.begin();
  for (const auto count : x.news.parts) {
    out.emplace_back(from, from + count);
    from += count;
  }
  return out;
}

std::unique_lock<std::mutex> remote_strategy::impl::enter() {
  std::unique_lock hold{busy, std::try_to_lock};
  if (!hold)
    throw std::logic_error("a function of a remote_strategy was called while "
                           "another one runs");
  return hold;
}

worker_task remote_strategy::impl::same_for_all(std::string_view name,
                                                const tensors& inputs) const {
  const std::vector<std::uint32_t> parts{
    static_cast<std::uint32_t>(inputs.size())};
  return {std::string{name}, 0,
          std::vector<std::vector<std::uint32_t>>(workers.size(), parts),
          std::vector<tensors>(workers.size(), inputs)};
}

per_replica<tensors> remote_strategy::impl::run(worker_task&& x) {
  const auto answers = tell_all(std::move(x));
  std::vector<tensors> out;
  for (std::size_t w = 0; w < answers.size(); ++w)
    for (auto& one : cut(w, answers[w], seats[w].count))
      out.push_back(std::move(one));
  return per_replica<tensors>{std::move(out)};
}

} // namespace troupe
