#include "troupe/net/base/text.hpp"
#include "troupe/training/remote/remote_strategy_impl.hpp"
#include "troupe/training/strategies/devices.hpp"
#include "troupe/training/strategies/reduce_op.hpp"

#include <algorithm>
#include <random>
#include <set>

// This file implements how a client spawns its workers, sends requests to them
// and handles their failures.

namespace troupe {

using std::chrono::milliseconds;

namespace {

/// Returns a job name that is unique over all strategies and clients.
/// @param steps name under which the nodes have registered the step functions.
std::string new_job_name(const std::string& steps) {
  std::random_device random;
  const auto number = std::uint64_t{random()} << 32 | random();
  return steps + " " + std::to_string(number);
}

} // namespace

// -- begin and end ------------------------------------------------------------

remote_strategy::impl::impl(runtime& local_runtime,
                            const std::vector<std::string>& nodes,
                            const remote_strategy_options& options)
  : system{local_runtime.system()}, addresses{nodes}, options{options} {
  check();
  spawn(local_runtime);
  join();
}

remote_strategy::impl::~impl() {
  if (failure_text.empty())
    leave_all(system, workers, options.shutdown_timeout);
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
  std::set<std::string> unique_addresses;
  for (const auto& one : addresses) {
    net::parse_address(one);
    if (!unique_addresses.insert(one).second)
      refuse("node " + one
             + " is given twice; name it once and give it more devices");
  }
  troupe::check(options.communication);
  check_threads(options.threads);
  if (options.devices.empty())
    refuse("devices is empty; give one for each replica of a node");
  const auto& connection = options.connection;
  for (const auto x :
       {options.start_timeout, options.request_timeout,
        options.shutdown_timeout, connection.heartbeat_interval,
        connection.heartbeat_timeout, connection.handshake_timeout})
    if (x < milliseconds{1} || x > std::chrono::hours{1})
      refuse("start_timeout, request_timeout, shutdown_timeout, and the "
             "heartbeat_interval, heartbeat_timeout and handshake_timeout of "
             "connection must be 1 ms to 1 h");
}

void remote_strategy::impl::spawn(runtime& local_runtime) {
  client_options node_options;
  node_options.connection = options.connection;
  node_options.request_timeout = options.request_timeout;
  worker_arguments arguments;
  arguments.job = new_job_name(options.steps);
  arguments.addresses = addresses;
  arguments.argument = options.argument;
  arguments.devices = options.devices;
  arguments.threads = options.threads;
  arguments.transport = options.transport;
  arguments.bytes_per_pack = options.communication.bytes_per_pack;
  arguments.timeout_ms =
    static_cast<std::uint64_t>(options.communication.timeout.count());
  arguments.callback_timeout_ms =
    static_cast<std::uint64_t>(options.communication.callback_timeout.count());
  arguments.start_timeout_ms =
    static_cast<std::uint64_t>(options.start_timeout.count());
  for (const auto& where : addresses)
    nodes.push_back(
      std::make_unique<remote_node>(local_runtime, where, node_options));
  for (const auto& one : nodes) {
    workers.push_back(
      one->spawn<worker_actor>(role_of_steps(options.steps), arguments));
    ++arguments.index;
  }
}

/// The time within which the client learns that it has lost a worker: its
/// heartbeat may begin an interval later than those of the other workers.
milliseconds remote_strategy::impl::loss_timeout() const {
  return options.connection.heartbeat_timeout
         + 2 * options.connection.heartbeat_interval;
}

void remote_strategy::impl::join() {
  auto replies =
    join_all(system, workers, options.request_timeout, loss_timeout());
  const auto activity = "starting \"" + options.steps + "\"";
  if (const auto bad = find_failure(replies))
    fail(*bad, activity);
  std::uint32_t first = 0;
  for (std::size_t w = 0; w < replies.size(); ++w) {
    auto& info = worker_infos.emplace_back(std::move(replies[w].status.info));
    std::vector<std::uint32_t> requested(options.devices.size());
    std::iota(requested.begin(), requested.end(), first);
    if (info.replica_ids != requested)
      fail({w, ec::protocol, "it has other replicas than requested"}, activity);
    first += static_cast<std::uint32_t>(requested.size());
  }
}

void remote_strategy::impl::fail(const worker_failure& cause,
                                 const std::string& activity) {
  failure_text = "node " + addresses[cause.worker] + " (worker "
                 + std::to_string(cause.worker) + "), " + activity + ": "
                 + net::printable_lines(cause.error_text);
  workers.clear();
  nodes.clear();
  throw job_error{cause.code, failure_text};
}

// -- work ---------------------------------------------------------------------

void remote_strategy::impl::throw_if_failed() const {
  if (!failure_text.empty())
    throw job_error{ec::cancelled,
                    "the nodes were released after " + failure_text};
}

void remote_strategy::impl::check_function(
  const std::vector<std::string>& known, std::string_view name,
  const char* verb) const {
  throw_if_failed();
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw std::invalid_argument("the steps \"" + options.steps + "\" have no \""
                                + std::string{name} + "\" to " + verb
                                + "; they have: " + name_list(known));
}

std::vector<worker_reply>
remote_strategy::impl::run_on_all(worker_request&& request) {
  for (const auto& all : request.inputs)
    for (const auto& one : all)
      check_unrecorded(one);
  request.number = next_request++;
  auto replies =
    run_all(system, workers, request, options.request_timeout, loss_timeout());
  if (const auto bad = find_failure(replies))
    fail(*bad, "function \"" + request.function + "\", step "
                 + std::to_string(request.number));
  return replies;
}

/// Divides the flat list of a worker's result tensors by replica.
std::vector<tensors> remote_strategy::impl::split_by_replica(
  std::size_t worker, const worker_reply& reply, std::size_t replicas) {
  std::uint64_t total = 0;
  for (const auto count : reply.status.tensor_counts)
    total += count;
  if (reply.status.tensor_counts.size() != replicas
      || total != reply.results.size())
    fail({worker, ec::protocol, "the tensor counts do not match the results"},
         "its results");
  std::vector<tensors> out;
  auto next_tensor = reply.results.begin();
  for (const auto count : reply.status.tensor_counts) {
    out.emplace_back(next_tensor, next_tensor + count);
    next_tensor += count;
  }
  return out;
}

std::unique_lock<std::mutex> remote_strategy::impl::lock_exclusively() {
  std::unique_lock lock{run_mutex, std::try_to_lock};
  if (!lock)
    throw std::logic_error("a function of a remote_strategy was called while "
                           "another one runs");
  return lock;
}

worker_request
remote_strategy::impl::make_request(std::string_view name,
                                    const tensors& inputs) const {
  const std::vector<std::uint32_t> tensor_counts{
    static_cast<std::uint32_t>(inputs.size())};
  return {
    std::string{name}, 0,
    std::vector<std::vector<std::uint32_t>>(workers.size(), tensor_counts),
    std::vector<tensors>(workers.size(), inputs)};
}

per_replica<tensors> remote_strategy::impl::run(worker_request&& request) {
  const auto replies = run_on_all(std::move(request));
  std::vector<tensors> out;
  for (std::size_t w = 0; w < replies.size(); ++w)
    for (auto& one :
         split_by_replica(w, replies[w], worker_infos[w].replica_ids.size()))
      out.push_back(std::move(one));
  return per_replica<tensors>{std::move(out)};
}

} // namespace troupe
