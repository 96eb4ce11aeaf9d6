#include "troupe/actors/core/log.hpp"
#include "troupe/actors/node/spare_acceptor.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/net/codec/frame.hpp"
#include "troupe/strategies/tensor_transfer/packet.hpp"
#include "troupe/training/remote/remote_strategy_impl.hpp"
#include "troupe/training/strategies/replica/devices.hpp"
#include "troupe/training/strategies/replica/reduce_op.hpp"
#include "troupe/training/strategies/replica/worker_difference.hpp"

#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <numeric>
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

/// Room in a message for what it holds beside the values of the inputs.
constexpr std::uint64_t bytes_beside_inputs = std::uint64_t{1} << 20;

std::uint64_t bytes_of(const tensors& values) {
  std::uint64_t bytes = 0;
  for (const auto& x : values)
    bytes += x.bytes();
  return bytes;
}

/// True if the worker is lost, or does not belong to the job any more.
bool is_out_of_job(const worker_status& status) {
  return is_lost(status) || (!status.done && status.out_of_job);
}

} // namespace

// -- begin and end ------------------------------------------------------------

remote_strategy::impl::impl(runtime& local_runtime,
                            const std::vector<std::string>& addresses,
                            const remote_strategy_options& options)
  : local_runtime{local_runtime},
    system{local_runtime.system()},
    options{options},
    job{new_job_name(options.steps)} {
  check(addresses);
  for (const auto& one : addresses)
    nodes.push_back({one, nullptr});
  spares.listen(local_runtime, options, addresses);
  spawn();
  join();
}

remote_strategy::impl::~impl() {
  if (failure_text.empty())
    leave_all(system, workers(), options.shutdown_timeout);
  spares.release();
  nodes.clear();
}

void remote_strategy::impl::check(
  const std::vector<std::string>& addresses) const {
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
  if (collectives_of(options.communication)
      != communication_options::backends::automatic)
    refuse((options.communication.implementation
                == communication_options::implementations::nccl
              ? std::string{"communication.implementation cannot be nccl"}
              : std::string{"communication.collectives cannot be chosen"})
           + "; the nodes use NCCL if all of them can");
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

client_options remote_strategy::impl::connection_options() const {
  client_options out;
  out.connection = options.connection;
  out.request_timeout = options.request_timeout;
  return out;
}

/// @param joins the worker takes the number of one that was lost.
worker_arguments remote_strategy::impl::arguments_of(std::size_t worker,
                                                     bool joins) const {
  const auto ms = [](milliseconds x) {
    return static_cast<std::uint64_t>(x.count());
  };
  worker_arguments out;
  out.job = job;
  for (const auto& one : nodes)
    out.addresses.push_back(one.address);
  out.index = static_cast<std::uint32_t>(worker);
  out.joins = joins;
  out.first_request = next_request;
  out.argument = options.argument;
  out.devices = options.devices;
  out.threads = options.threads;
  out.transport = options.transport;
  out.bytes_per_pack = options.communication.bytes_per_pack;
  out.timeout_ms = ms(options.communication.timeout);
  out.callback_timeout_ms = ms(options.communication.callback_timeout);
  out.start_timeout_ms = ms(options.start_timeout);
  return out;
}

void remote_strategy::impl::spawn() {
  for (auto& one : nodes)
    one.node = std::make_unique<remote_node>(local_runtime, one.address,
                                             connection_options());
  for (std::size_t w = 0; w < nodes.size(); ++w)
    nodes[w].worker = nodes[w].node->spawn<worker_actor>(
      role_of_steps(options.steps), arguments_of(w, false));
  update_members();
}

/// The time within which the client learns that it has lost a worker. Its
/// heartbeat may begin an interval later than those of the workers.
milliseconds remote_strategy::impl::loss_timeout() const {
  return options.connection.heartbeat_timeout
         + 2 * options.connection.heartbeat_interval;
}

void remote_strategy::impl::join() {
  auto replies =
    join_all(system, workers(), options.request_timeout, loss_timeout());
  const auto activity = "starting \"" + options.steps + "\"";
  if (const auto bad = find_failure(replies))
    fail(*bad, activity);
  first_info = replies.front().status.info;
  for (std::size_t w = 0; w < replies.size(); ++w) {
    auto& status = replies[w].status;
    std::vector<std::uint32_t> requested(options.devices.size());
    std::iota(requested.begin(), requested.end(), replicas);
    if (status.replica_ids != requested)
      fail({w, ec::protocol, "it has other replicas than requested"}, activity);
    const auto& own = status.info;
    if (const auto text = difference(
          "worker 0", first_info.description + first_info.initial_values,
          own.description + own.initial_values);
        !text.empty())
      fail({w, ec::invalid, "its step functions have " + text}, activity);
    nodes[w].replica_ids = status.replica_ids;
    replicas += static_cast<std::uint32_t>(requested.size());
  }
}

// -- the state of the nodes ---------------------------------------------------

worker_list remote_strategy::impl::workers() const {
  worker_list out;
  for (const auto& one : nodes)
    out.push_back(one.worker);
  return out;
}

std::size_t remote_strategy::impl::nodes_left() const {
  return static_cast<std::size_t>(std::ranges::count_if(
    nodes, [](const node_entry& x) { return bool(x.worker); }));
}

std::string remote_strategy::impl::name_of(std::size_t worker) const {
  return "node " + nodes[worker].address + " (worker " + std::to_string(worker)
         + ")";
}

void remote_strategy::impl::update_members() {
  std::vector<job_member> members;
  for (const auto& one : nodes)
    if (one.worker)
      members.push_back({one.address, one.node->incarnation()});
  spares.set_members(std::move(members));
}

/// The job goes on without the worker.
void remote_strategy::impl::note_loss(std::size_t worker,
                                      const worker_status& status) {
  auto& one = nodes[worker];
  if (!one.worker)
    return;
  one.loss = net::printable_lines(status.error_text);
  // The worker would live as long as any other copy of its handle, and the node
  // cannot be added again before its worker has ended.
  caf::anon_send_exit(std::exchange(one.worker, nullptr),
                      caf::exit_reason::user_shutdown);
  one.replica_ids.clear();
  update_members();
  log(log_level::warning, name_of(worker) + " was lost: " + one.loss
                            + "; the job goes on with "
                            + std::to_string(nodes_left()) + " of its "
                            + std::to_string(nodes.size()) + " nodes");
}

/// Notes where the replicas of a worker are. The inputs of a replica whose
/// place is not known are sent to all workers.
void remote_strategy::impl::note_place(std::size_t worker,
                                       const worker_status& status) {
  const auto& ids = status.replica_ids;
  const bool is_valid = std::ranges::is_sorted(ids, std::ranges::less_equal{})
                        && (ids.empty() || ids.back() < replicas);
  if (!is_valid)
    fail({worker, ec::protocol, "it reports replicas that the job has not"},
         "its replicas");
  nodes[worker].replica_ids = ids;
}

/// Notes the workers that are lost, and where the replicas are.
void remote_strategy::impl::note_replies(
  const std::vector<worker_reply>& replies) {
  for (std::size_t w = 0; w < replies.size(); ++w)
    if (is_out_of_job(replies[w].status))
      note_loss(w, replies[w].status);
    else if (nodes[w].worker)
      note_place(w, replies[w].status);
}

job_error remote_strategy::impl::error_of(const worker_failure& cause,
                                          const std::string& activity) const {
  return {cause.code, name_of(cause.worker) + ", " + activity + ": "
                        + net::printable_lines(cause.error_text)};
}

void remote_strategy::impl::fail(const worker_failure& cause,
                                 const std::string& activity) {
  const auto error = error_of(cause, activity);
  failure_text = error.what();
  for (auto& one : nodes) {
    one.worker = nullptr;
    one.node.reset();
  }
  spares.close();
  throw error;
}

// -- work ---------------------------------------------------------------------

namespace {

/// True if all workers that are not lost have ended the request and made the
/// same calls, and no reason is a failure of the job.
bool is_job_intact(const std::vector<worker_reply>& replies) {
  std::optional<std::uint64_t> calls;
  for (const auto& [status, results] : replies) {
    if (is_lost(status))
      continue;
    if (!status.done && status.code != ec::invalid)
      return false;
    if (calls.value_or(status.calls) != status.calls)
      return false;
    calls = status.calls;
  }
  return calls.has_value();
}

/// Returns why the request has failed, if it is no loss: first what a worker
/// says of itself.
std::optional<worker_failure>
find_other_failure(const std::vector<worker_reply>& replies) {
  const auto is_failure = [](const worker_status& x) {
    return !x.done && !is_out_of_job(x);
  };
  auto it =
    std::ranges::find_if(replies, has_failed_itself, &worker_reply::status);
  if (it == replies.end())
    it = std::ranges::find_if(replies, is_failure, &worker_reply::status);
  if (it == replies.end())
    return std::nullopt;
  return worker_failure{static_cast<std::size_t>(it - replies.begin()),
                        it->status.code, it->status.error_text};
}

} // namespace

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

/// Refuses inputs that are too large for a message before any worker gets some:
/// a worker without inputs would miss the request.
void remote_strategy::impl::check_sizes(const worker_request& request) const {
  const auto limit = std::min<std::uint64_t>(
                       net::frame_limits{}.max_payload(net::priority::bulk),
                       tensor_transfer::max_transfer_bytes)
                     - bytes_beside_inputs;
  const auto check = [&](std::uint64_t bytes, const std::string& what) {
    if (bytes > limit)
      throw std::invalid_argument(
        "the inputs of \"" + request.function + "\" " + what + " have "
        + std::to_string(bytes) + " bytes; a message has at most "
        + std::to_string(limit) + ", so use smaller batches");
  };
  if (request.by_replica.empty())
    return check(bytes_of(request.common), "for a node");
  for (std::size_t w = 0; w < nodes.size(); ++w) {
    std::uint64_t bytes = 0;
    for (const auto id : request.placement[w])
      bytes += bytes_of(request.by_replica.at(id));
    check(bytes, "for " + name_of(w));
  }
  for (std::size_t id = 0; id < request.by_replica.size(); ++id)
    check(bytes_of(request.by_replica[id]),
          "for replica " + std::to_string(id));
}

std::vector<worker_reply>
remote_strategy::impl::run_on_all(worker_request&& request) {
  for (const auto& one : request.common)
    check_unrecorded(one);
  for (const auto& all : request.by_replica)
    for (const auto& one : all)
      check_unrecorded(one);
  for (const auto& one : nodes)
    request.placement.push_back(one.replica_ids);
  check_sizes(request);
  request.number = next_request++;
  auto replies = run_all(system, workers(), request, options.request_timeout,
                         loss_timeout());
  const auto activity = activity_of(request);
  if (const auto bad = find_other_failure(replies)) {
    if (!is_job_intact(replies))
      fail(cause_of(replies), activity);
    note_replies(replies);
    throw error_of(*bad, activity);
  }
  if (std::ranges::none_of(replies, &worker_status::done,
                           &worker_reply::status))
    fail(cause_of(replies), activity);
  note_replies(replies);
  return replies;
}

/// Returns why the job has failed. A worker that was lost before is the cause
/// only if there is no other.
worker_failure remote_strategy::impl::cause_of(
  const std::vector<worker_reply>& replies) const {
  auto current = replies;
  for (std::size_t w = 0; w < nodes.size(); ++w)
    if (!nodes[w].worker)
      current[w].status.done = true;
  return *find_failure(
    std::ranges::all_of(current, &worker_status::done, &worker_reply::status)
      ? replies
      : current);
}

std::string remote_strategy::impl::activity_of(const worker_request& request) {
  return "function \"" + request.function + "\", step "
         + std::to_string(request.number);
}

std::vector<tensors> remote_strategy::impl::split(std::size_t worker,
                                                  const worker_reply& reply,
                                                  std::size_t parts) {
  const auto& counts = reply.status.tensor_counts;
  if (counts.size() != parts
      || std::accumulate(counts.begin(), counts.end(), std::uint64_t{0})
           != reply.results.size())
    fail({worker, ec::protocol, "the tensor counts do not match the results"},
         "its results");
  std::vector<tensors> out;
  auto next_tensor = reply.results.begin();
  for (const auto count : counts) {
    out.emplace_back(next_tensor, next_tensor + count);
    next_tensor += count;
  }
  return out;
}

void remote_strategy::impl::take_results(
  std::size_t worker, const worker_reply& reply,
  std::vector<std::optional<tensors>>& found) {
  const auto& ids = reply.status.result_ids;
  auto parts = split(worker, reply, ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= found.size())
      fail({worker, ec::protocol, "the job has no replica of its results"},
           "its results");
    found[ids[i]] = std::move(parts[i]);
  }
}

void remote_strategy::impl::fetch_lost_results(
  std::uint64_t number, const std::string& activity,
  std::vector<std::optional<tensors>>& found) {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t id = 0; id < found.size(); ++id)
    if (!found[id])
      missing.push_back(id);
  if (missing.empty())
    return;
  std::optional<worker_failure> refusal;
  for (std::size_t w = 0; w < nodes.size(); ++w) {
    if (!nodes[w].worker)
      continue;
    const auto reply = results_of(system, nodes[w].worker, number, missing,
                                  options.request_timeout);
    if (is_out_of_job(reply.status)) {
      note_loss(w, reply.status);
    } else if (!reply.status.done) { // it is too large, for example
      refusal = worker_failure{w, reply.status.code, reply.status.error_text};
    } else if (reply.status.result_ids != missing) {
      fail({w, ec::protocol, "it sent other results than requested"}, activity);
    } else {
      return take_results(w, reply, found);
    }
  }
  if (!refusal)
    fail({0, ec::peer_lost, nodes.front().loss}, activity);
  throw error_of({refusal->worker, refusal->code,
                  "the step is made, but the results of lost nodes are not "
                  "known: "
                    + refusal->error_text},
                 activity);
}

std::unique_lock<std::mutex> remote_strategy::impl::lock_exclusively() {
  std::unique_lock lock{run_mutex, std::try_to_lock};
  if (!lock)
    throw std::logic_error("a function of a remote_strategy was called while "
                           "another one runs");
  return lock;
}

per_replica<tensors> remote_strategy::impl::run(worker_request&& request) {
  const auto number = request.number = next_request;
  const auto activity = activity_of(request);
  const auto replies = run_on_all(std::move(request));
  std::vector<std::optional<tensors>> found(replicas);
  for (std::size_t w = 0; w < replies.size(); ++w)
    if (replies[w].status.done)
      take_results(w, replies[w], found);
  fetch_lost_results(number, activity, found);
  std::vector<tensors> out;
  for (auto& one : found)
    out.push_back(std::move(*one));
  return per_replica<tensors>{std::move(out)};
}

// -- nodes that are added -----------------------------------------------------

/// Returns the number of a lost worker, of the node with this address if it is
/// one of them.
/// @errors throws std::invalid_argument if there is none.
std::size_t remote_strategy::impl::free_number(const std::string& address) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument("node " + address + " cannot be added: " + why);
  };
  const auto probes = probe_all(system, workers(), loss_timeout());
  for (std::size_t w = 0; w < probes.size(); ++w)
    if (is_lost(probes[w].status))
      note_loss(w, probes[w].status);
  std::optional<std::size_t> out;
  for (std::size_t w = 0; w < nodes.size(); ++w) {
    if (nodes[w].worker && nodes[w].address == address)
      refuse("it belongs to the job already");
    if (!nodes[w].worker && (!out || nodes[w].address == address))
      out = w;
  }
  if (!out)
    refuse("none of the " + std::to_string(nodes.size())
           + " nodes of the job is lost, and a job has no more processes than "
             "at its start");
  return *out;
}

void remote_strategy::impl::add(const std::string& address) {
  net::parse_address(address);
  throw_if_failed();
  if (nodes.size() == 1)
    throw std::invalid_argument("node " + address
                                + " cannot be added: the job has one node, and "
                                  "a job has no more processes than at its "
                                  "start");
  const auto number = free_number(address);
  node_entry added{address, std::make_unique<remote_node>(
                              local_runtime, address, connection_options())};
  auto arguments = arguments_of(number, true);
  arguments.addresses[number] = address;
  added.worker =
    added.node->spawn<worker_actor>(role_of_steps(options.steps), arguments);
  const auto replies =
    join_all(system, {added.worker}, options.request_timeout, milliseconds{0});
  const auto refused = [&](ec code, const std::string& why) {
    return job_error{code,
                     "node " + address + " (worker " + std::to_string(number)
                       + ") cannot be added: " + net::printable_lines(why)};
  };
  const auto& status = replies.front().status;
  if (!status.done)
    throw refused(status.code, status.error_text);
  if (const auto text =
        difference("worker 0", first_info.description, status.info.description);
      !text.empty())
    throw refused(ec::invalid, "its step functions have " + text);
  admit(number, std::move(added), status.info.incarnation);
}

namespace {

/// Says whether an attempt to add a node failed for a reason that cannot pass:
/// the node does not fit. Any other one may fit the next time.
bool is_permanent(const std::exception& failure) {
  if (const auto* error = dynamic_cast<const job_error*>(&failure))
    return error->code == ec::invalid || error->code == ec::refused
           || error->code == ec::protocol;
  return dynamic_cast<const std::invalid_argument*>(&failure) != nullptr;
}

} // namespace

void remote_strategy::impl::use_spares() {
  // A spare that is disconnected may come back before the loop has ended.
  std::set<std::uint64_t> tried;
  while (nodes_left() < nodes.size()) {
    const auto spare = spares.take(tried);
    if (!spare)
      return;
    tried.insert(spare->incarnation);
    const auto& address = spare->description.address;
    try {
      add(address);
    } catch (const std::exception& e) {
      const std::string why = e.what();
      if (!failure_text.empty()) {
        spare->disconnect(why);
        throw;
      }
      if (is_permanent(e)) {
        spare->end({spare_end::refused, why});
        log(log_level::warning, "a spare was refused: " + why);
      } else {
        spare->disconnect(why);
        log(log_level::warning, "a spare can be tried again later: " + why);
      }
      continue;
    }
    spare->end({spare_end::used, "it belongs to the job \"" + options.steps
                                   + "\" in the place of a lost node"});
    log(log_level::info,
        "the spare " + address + " has taken the place of a lost node");
  }
}

/// Makes the worker of a node a member of the job.
/// @errors throws `job_error` if the job does not admit it, and if the job has
///         failed.
void remote_strategy::impl::admit(std::size_t number, node_entry&& added,
                                  std::uint64_t incarnation) {
  auto all = workers();
  all[number] = added.worker;
  auto replies = admit_on_all(system, all, number, next_request++, incarnation,
                              options.request_timeout, loss_timeout());
  const auto activity = "adding node " + added.address;
  const auto own = std::exchange(replies[number], {{.failed_here = false}, {}});
  if (own.status.done
      && std::ranges::none_of(replies, &worker_status::done,
                              &worker_reply::status))
    fail(cause_of(replies), activity);
  if (own.status.done) {
    nodes[number] = std::move(added);
    update_members();
    replies[number] = own;
    return note_replies(replies);
  }
  note_replies(replies);
  throw job_error{own.status.code,
                  "node " + added.address + " (worker " + std::to_string(number)
                    + ") cannot be added: "
                    + net::printable_lines(own.status.error_text)};
}

} // namespace troupe
