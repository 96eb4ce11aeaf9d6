#include "troupe/training/parameter_server/cluster_coordinator.hpp"

#include "troupe/actors/coordinator/closure_link.hpp"
#include "troupe/actors/coordinator/closure_scheduler.hpp"
#include "troupe/actors/coordinator/closure_worker.hpp"
#include "troupe/actors/coordinator/remote_batch.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/node/blocking_client.hpp"
#include "troupe/actors/node/remote_node.hpp"
#include "troupe/training/parameter_server/closure_node.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>

namespace troupe {

namespace {

using namespace std::chrono_literals;

constexpr auto shutdown_timeout = 5s;
/// Of a request to a node, which may have large inputs.
constexpr std::chrono::milliseconds node_timeout = 10min;
constexpr std::chrono::milliseconds max_timeout = 24h;
/// The end of a coordinator waits for an attempt to connect again.
constexpr std::chrono::milliseconds reconnect_timeout = 1s;
/// A control frame of at most 1 MiB has them.
constexpr std::size_t max_arguments = std::size_t{768} * 1024;

void check(const parameter_servers& servers, const coordinator_options& x) {
  const auto reject = [](const std::string& what) {
    throw std::invalid_argument("coordinator_options: " + what);
  };
  if (x.in_flight == 0)
    reject("in_flight is 0; give at least 1");
  if (const auto most = std::min(x.in_flight, max_interleaved);
      x.interleaved == 0 || x.interleaved > most)
    reject("interleaved is " + std::to_string(x.interleaved)
           + "; give at least 1 and at most " + std::to_string(most)
           + ", as in_flight is " + std::to_string(x.in_flight));
  if (x.max_unfinished == 0)
    reject("max_unfinished is 0; give at least 1");
  if (x.nodes.empty() != x.closures.empty())
    reject("give both nodes and closures, or none of them");
  if (!x.nodes.empty() && x.in_flight > max_in_flight_on_node)
    reject("in_flight is " + std::to_string(x.in_flight) + "; give at most "
           + std::to_string(max_in_flight_on_node) + " for workers on nodes");
  if (x.nodes.empty() && !x.arguments.empty())
    reject("arguments are for closures on nodes; give nodes too");
  if (x.arguments.size() > max_arguments)
    reject("the arguments have " + std::to_string(x.arguments.size())
           + " bytes; give at most " + std::to_string(max_arguments));
  if (x.reconnect_interval < 0ms || x.reconnect_interval > 24h)
    reject("reconnect_interval is negative or above 24 hours");
  if (!x.nodes.empty() && servers.options().nodes.empty())
    reject("workers on nodes cannot reach servers of this process; give the "
           "strategy nodes too");
}

/// @errors throws std::logic_error in a closure.
void check_outside(const std::string& call) {
  if (current_closure())
    throw std::logic_error("a closure cannot call " + call
                           + " of its coordinator");
}

std::string list(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& one : names)
    out += (out.empty() ? "" : ", ") + one;
  return out;
}

} // namespace

struct cluster_coordinator::impl {
  impl(const parameter_server_strategy& strategy,
       const coordinator_options& how)
    : servers{strategy.servers()},
      options{how},
      unfinished{std::make_shared<unfinished_closures>(how.max_unfinished)} {
    check(*servers, options);
    const auto [life, first] = servers->begin_coordinator();
    scheduler = servers->system().spawn(
      closure_scheduler, closure_scheduler_config{
                           servers->router(), servers->options().servers, life,
                           first, servers->options().timeout,
                           [unfinished = unfinished](const std::string& why) {
                             unfinished->fail_all(why);
                           },
                           [this](std::uint64_t id, const std::string& why) {
                             on_worker_lost(id, why);
                           }});
    unfinished->on_reported = [this] {
      caf::anon_send(scheduler, atom::resume_v);
    };
    try {
      add_first_workers();
      for (auto i = servers->options().workers; on_threads() && i > 0; --i)
        add_worker();
    } catch (...) {
      end();
      throw;
    }
    if (!on_threads() && options.reconnect_interval > 0ms)
      reconnecting =
        std::jthread{[this](const std::stop_token& stop) { reconnect(stop); }};
  }
  ~impl() {
    // It may add a worker until then.
    if (reconnecting.joinable()) {
      reconnecting.request_stop();
      reconnecting.join();
    }
    end();
  }
  impl(const impl&) = delete;
  impl& operator=(const impl&) = delete;

  struct worker {
    std::uint64_t id = 0;
    closure_worker_actor actor;
    std::shared_ptr<std::atomic<bool>> ending;
    std::unique_ptr<remote_node> node; ///< Null: the worker is a thread.
    std::vector<std::string> closures; ///< That its node has registered.
    std::string address;               ///< Of the node.
  };

  /// Adds the workers of `options.nodes`. Those that cannot be reached are left
  /// to `reconnect`, but not all of them.
  void add_first_workers() {
    for (const auto& node : options.nodes)
      try {
        add_worker(node);
      } catch (const job_error& e) {
        const bool may_come =
          e.code == ec::peer_lost || e.code == ec::unreachable;
        const std::lock_guard hold{lock};
        if (!may_come || options.reconnect_interval == 0ms
            || (&node == &options.nodes.back() && closures.empty()))
          throw;
        log(log_level::warning,
            std::string{e.what()} + "; the coordinator tries again");
        to_reconnect.insert(node);
      }
  }

  /// Connects again to nodes whose workers were lost, until it is stopped.
  void reconnect(const std::stop_token& stop) {
    std::condition_variable_any ended;
    std::mutex unused;
    for (;;) {
      std::unique_lock hold{unused};
      ended.wait_for(hold, stop, options.reconnect_interval,
                     [] { return false; });
      if (stop.stop_requested())
        return;
      drop_ended_nodes();
      while (!stop.stop_requested())
        if (const auto node = next_to_reconnect())
          reconnect(*node);
        else
          break;
      const std::lock_guard lost_ones{lock};
      to_reconnect.merge(failed_to_reconnect);
    }
  }

  void drop_ended_nodes() {
    std::vector<std::unique_ptr<remote_node>> ended;
    const std::lock_guard hold{lock};
    ended.swap(ended_nodes);
  } // their destructors wait, after the lock is released

  void reconnect(const std::string& node) {
    try {
      const auto number = add_worker(node, reconnect_timeout);
      log(log_level::warning, "worker " + std::to_string(number) + " (" + node
                                + ") has joined the coordinator again");
      reasons.erase(node);
    } catch (const std::exception& e) {
      // A process that is not there yet is no news.
      const auto* const fault = dynamic_cast<const job_error*>(&e);
      const bool is_absent =
        fault
        && (fault->code == ec::peer_lost || fault->code == ec::unreachable);
      if (std::exchange(reasons[node], e.what()) != e.what())
        log(is_absent ? log_level::debug : log_level::warning,
            "cannot connect again to the worker on " + node + ": " + e.what());
      failed_to_reconnect.insert(node);
    }
  }

  std::optional<std::string> next_to_reconnect() {
    const std::lock_guard hold{lock};
    if (to_reconnect.empty())
      return std::nullopt;
    return to_reconnect.extract(to_reconnect.begin()).value();
  }

  bool on_threads() const { return options.nodes.empty(); }

  /// Ends all actors.
  void end() {
    std::vector<caf::actor> actors;
    actors.push_back(caf::actor_cast<caf::actor>(std::move(scheduler)));
    std::map<std::uint32_t, worker> ended;
    {
      const std::lock_guard hold{lock};
      ended = std::move(workers);
    }
    for (auto& [number, one] : ended) {
      *one.ending = true;
      actors.push_back(caf::actor_cast<caf::actor>(std::move(one.actor)));
    }
    end_actors(servers->system(), std::move(actors), shutdown_timeout);
    servers->end_coordinator(unfinished->added());
    release_caf_logger();
  }

  std::uint32_t add_worker() {
    if (!on_threads())
      throw std::logic_error("add_worker: name the node of the worker, as the "
                             "workers of this coordinator are on nodes");
    const std::lock_guard hold{lock};
    const auto& from = servers->options();
    closure_worker_config config{.id = next_id++,
                                 .number = free_number(),
                                 .owner = scheduler,
                                 .router = servers->router(),
                                 .servers = servers->job(),
                                 .timeout = from.timeout,
                                 .threads = from.threads,
                                 .interleaved = options.interleaved,
                                 .seed = from.seed};
    const auto [id, number, ending] =
      std::tuple{config.id, config.number, config.ending};
    add(number, {id,
                 servers->system().spawn<caf::detached>(closure_worker,
                                                        std::move(config)),
                 ending,
                 nullptr,
                 {},
                 {}});
    return number;
  }

  /// @param timeout of the connection; at most that of the options.
  std::uint32_t add_worker(const std::string& node,
                           std::chrono::milliseconds timeout = max_timeout) {
    if (on_threads())
      throw std::logic_error("add_worker: the workers of this coordinator are "
                             "threads, not on nodes like "
                             + node);
    std::unique_lock hold{lock};
    const auto number = free_number();
    const auto id = next_id++;
    lost.insert(number); // until it is a worker
    hold.unlock();
    try {
      auto one = connect(node, number, id, timeout);
      hold.lock();
      if (closures.empty())
        closures = one.closures;
      if (one.closures != closures)
        throw std::invalid_argument("worker " + std::to_string(number) + " ("
                                    + node + ") has the closures "
                                    + list(one.closures) + ", others have "
                                    + list(closures));
      lost.erase(number);
      add(number, std::move(one));
    } catch (...) {
      if (!hold.owns_lock())
        hold.lock();
      lost.erase(number);
      throw;
    }
    return number;
  }

  worker connect(const std::string& node, std::uint32_t number,
                 std::uint64_t id, std::chrono::milliseconds timeout) {
    auto client = options.node_connection;
    client.connect_timeout = std::min(client.connect_timeout, timeout);
    client.request_timeout = node_timeout;
    worker one{
      id,
      {},
      std::make_shared<std::atomic<bool>>(false),
      std::make_unique<remote_node>(servers->local_runtime(), node, client),
      {},
      node};
    const auto& from = servers->options();
    const auto remote = one.node->spawn<remote_closure_worker_actor>(
      closure_role(options.closures),
      closure_node_arguments{.job = servers->job(),
                             .servers = servers->addresses(),
                             .number = number,
                             .threads = from.threads,
                             .interleaved = options.interleaved,
                             .seed = from.seed,
                             .timeout_ms =
                               static_cast<std::uint64_t>(from.timeout.count()),
                             .arguments = options.arguments,
                             .copies = from.copies,
                             .shards = from.servers});
    one.closures = ask<std::vector<std::string>>(
      servers->system(), "worker " + std::to_string(number) + " (" + node + ")",
      remote, options.start_timeout, atom::info_v);
    one.actor = servers->system().spawn(
      closure_link, closure_link_config{one.id, number, node, scheduler, remote,
                                        node_timeout});
    return one;
  }

  bool remove_worker(std::uint32_t number, std::chrono::milliseconds timeout) {
    std::unique_lock hold{lock};
    auto found = workers.extract(number);
    if (!found)
      throw std::invalid_argument("remove_worker: there is no worker "
                                  + std::to_string(number));
    lost.insert(number); // until it has ended
    hold.unlock();
    auto one = std::move(found.mapped());
    *one.ending = true;
    caf::anon_send(scheduler, atom::stop_v, one.id);
    std::vector<caf::actor> ended;
    ended.push_back(caf::actor_cast<caf::actor>(std::move(one.actor)));
    one.node.reset(); // its role ends
    const bool in_time =
      end_actors(servers->system(), std::move(ended), timeout);
    if (in_time) {
      hold.lock();
      lost.erase(number);
    }
    return in_time;
  }

  void on_worker_lost(std::uint64_t id, const std::string& why) {
    const std::lock_guard hold{lock};
    const auto found = std::ranges::find_if(
      workers, [&](const auto& x) { return x.second.id == id; });
    if (found == workers.end())
      return;
    log(log_level::warning,
        "worker " + std::to_string(found->first)
          + " of the coordinator was lost: " + why
          + (workers.size() > 1 ? "; others execute its closures"
                                : "; no worker is left, and the closures "
                                  "wait for one"));
    if (!found->second.address.empty())
      to_reconnect.insert(found->second.address);
    ended_nodes.push_back(std::move(found->second.node));
    workers.erase(found);
  }

  std::uint32_t free_number() const {
    std::uint32_t number = 0;
    while (workers.contains(number) || lost.contains(number))
      ++number;
    return number;
  }

  void add(std::uint32_t number, worker&& one) {
    caf::anon_send(scheduler, new_worker{one.id, options.in_flight, one.actor});
    workers.emplace(number, std::move(one));
    release_caf_logger();
  }

  const std::shared_ptr<parameter_servers> servers;
  const coordinator_options options;
  const std::shared_ptr<unfinished_closures> unfinished;
  closure_scheduler_actor scheduler;
  std::recursive_mutex use; ///< `lock_workers`
  mutable std::mutex lock;  // guards all below
  std::uint64_t next_id = 0;
  /// Connections of workers that were lost. The thread that has found it must
  /// not wait for their end.
  std::vector<std::unique_ptr<remote_node>> ended_nodes;
  std::map<std::uint32_t, worker> workers; ///< By number.
  std::set<std::uint32_t> lost; ///< Numbers of workers that may still compute.
  std::vector<std::string> closures;  ///< That the nodes have registered.
  std::set<std::string> to_reconnect; ///< Nodes whose workers were lost.
  // Only the thread that connects again uses these two.
  std::set<std::string> failed_to_reconnect;
  std::map<std::string, std::string> reasons; ///< Of the last failure, by node.
  std::jthread reconnecting;
};

cluster_coordinator::cluster_coordinator(
  const parameter_server_strategy& strategy, const coordinator_options& options)
  : impl_{std::make_unique<impl>(strategy, options)} {}

cluster_coordinator::~cluster_coordinator() = default;

std::shared_ptr<const closure_result>
cluster_coordinator::add(function fn, closure_options options) {
  if (!impl_->on_threads())
    throw std::logic_error("schedule: a function cannot be sent to a node; "
                           "register it there (register_closures), and call "
                           "schedule_named");
  return add([&] { return std::make_shared<closure>(std::move(fn), nullptr); },
             std::move(options));
}

std::shared_ptr<const closure_result>
cluster_coordinator::add(const std::function<std::shared_ptr<closure>()>& make,
                         closure_options options) {
  check_outside("schedule");
  const auto result = std::make_shared<closure_result>(
    impl_->unfinished, std::move(options.on_report));
  // Its destructor must not run under the lock of the unfinished closures.
  const auto what = make();
  what->waits_for_others = options.waits_for_others;
  impl_->unfinished->add(!options.waits_for_others, [&] {
    what->listener = result;
    caf::anon_send(impl_->scheduler, what);
  });
  return result;
}

remote_value<tensors>
cluster_coordinator::schedule_named(const std::string& name, tensors inputs,
                                    closure_options options) {
  if (impl_->on_threads())
    throw std::logic_error("schedule_named: the workers are threads; pass the "
                           "function to schedule");
  {
    const std::lock_guard hold{impl_->lock};
    if (std::ranges::find(impl_->closures, name) == impl_->closures.end())
      throw std::invalid_argument("no closure \"" + name
                                  + "\" is registered; there are: "
                                  + list(impl_->closures));
  }
  return remote_value<tensors>{add(
    [&] { return std::make_shared<closure>(name, std::move(inputs), nullptr); },
    std::move(options))};
}

void cluster_coordinator::join() {
  check_outside("join");
  impl_->unfinished->wait_for_all({});
}

bool cluster_coordinator::join_for(std::chrono::milliseconds timeout) {
  check_outside("join_for");
  return impl_->unfinished->wait_for_all(timeout);
}

bool cluster_coordinator::done() {
  check_outside("done");
  return impl_->unfinished->is_done();
}

per_worker<worker_dataset> cluster_coordinator::create_per_worker_dataset(
  const data::dataset& elements) const {
  return create_per_worker(
    [elements](std::uint32_t) { return worker_dataset{elements}; });
}

per_worker<worker_dataset> cluster_coordinator::create_per_worker_dataset(
  std::function<data::dataset(std::uint32_t)> elements) const {
  return create_per_worker(
    [elements = std::move(elements)](std::uint32_t worker) {
      return worker_dataset{elements(worker)};
    });
}

bool cluster_coordinator::has_nodes() const {
  return !impl_->on_threads();
}

const std::string& cluster_coordinator::strategy_name() const {
  return impl_->servers->job();
}

std::unique_lock<std::recursive_mutex>
cluster_coordinator::lock_workers(const std::string& call) {
  check_outside(call);
  std::unique_lock hold{impl_->use, std::try_to_lock};
  if (!hold)
    throw std::logic_error(call
                           + ": another thread trains or evaluates with this "
                             "coordinator; call one after the other, or give "
                             "each model a strategy and a coordinator");
  if (!done())
    throw std::logic_error(
      call + ": closures of the coordinator are not done; call join first");
  return hold;
}

bool cluster_coordinator::wait_for_results(
  std::span<const std::shared_ptr<const closure_result>> some,
  std::size_t count, std::chrono::milliseconds timeout) const {
  check_outside("wait_for_some");
  auto& unfinished = *impl_->unfinished;
  for (const auto& one : some)
    if (!one->is_of(unfinished))
      throw std::logic_error(
        "wait_for_some: a closure was scheduled by another "
        "coordinator than that of "
        "parameter_server_strategy "
        + strategy_name());
  const auto is_enough = [&] {
    return unfinished.is_broken()
           || static_cast<std::size_t>(std::ranges::count_if(
                some, &closure_result::is_over,
                [](const auto& x) -> const auto& { return *x; }))
                >= count;
  };
  return unfinished.wait_for(is_enough, timeout);
}

std::uint32_t cluster_coordinator::add_worker() {
  check_outside("add_worker");
  return impl_->add_worker();
}

std::uint32_t cluster_coordinator::add_worker(const std::string& node) {
  check_outside("add_worker");
  return impl_->add_worker(node);
}

bool cluster_coordinator::remove_worker(std::uint32_t worker,
                                        std::chrono::milliseconds timeout) {
  check_outside("remove_worker");
  return impl_->remove_worker(worker, timeout);
}

std::vector<std::uint32_t> cluster_coordinator::workers() const {
  const std::lock_guard hold{impl_->lock};
  std::vector<std::uint32_t> out;
  for (const auto& [number, one] : impl_->workers)
    out.push_back(number);
  return out;
}

} // namespace troupe
