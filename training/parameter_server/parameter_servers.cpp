#include "troupe/training/parameter_server/parameter_servers.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/faults/process_fault_injector.hpp"
#include "troupe/actors/node/blocking_client.hpp"
#include "troupe/actors/protocol/closure_owner.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/actors/shard/copy_supervisor.hpp"
#include "troupe/actors/shard/shard_router.hpp"
#include "troupe/training/parameter_server/host_connections.hpp"
#include "troupe/training/parameter_server/training_layout.hpp"

#include <caf/actor_cast.hpp>
#include <caf/scoped_actor.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

namespace troupe {

namespace {

using namespace std::chrono_literals;

/// The optimizer of a model has the number of a part and this bit.
constexpr std::uint32_t model_optimizer = std::uint32_t{1} << 31;

/// Returns a name that no other servers have.
std::string new_job(const runtime& actors) {
  static std::atomic<std::uint64_t> made{0};
  return std::to_string(actors.incarnation()) + "/" + std::to_string(made++);
}

/// Returns the options with the number of servers.
/// @param shards zero: one for each node, or `servers`.
parameter_server_options check(parameter_server_options x, std::uint32_t shards,
                               bool is_owner) {
  if (shards > 0)
    x.servers = shards;
  else if (!x.nodes.empty())
    x.servers = static_cast<std::uint32_t>(x.nodes.size());
  const auto reject = [](const std::string& what) {
    throw std::invalid_argument("parameter_server_options: " + what);
  };
  if (x.servers == 0)
    reject("servers is 0; give at least 1");
  if (x.workers == 0)
    reject("workers is 0; give at least 1");
  if (x.copies == 0)
    reject("copies is 0; give at least 1");
  if (x.copies > 1 && x.nodes.empty())
    reject("copies is " + std::to_string(x.copies)
           + ", but servers that are threads of this process end with it; give "
             "nodes");
  if (x.copies > 1 && is_owner && x.copies > x.nodes.size())
    reject("copies is " + std::to_string(x.copies) + ", but there are "
           + std::to_string(x.nodes.size())
           + " nodes; give at least as many nodes");
  if (x.copies > 1)
    for (std::size_t i = 0; i < x.nodes.size(); ++i)
      if (std::ranges::find(x.nodes.begin(), x.nodes.begin() + i, x.nodes[i])
          != x.nodes.begin() + i)
        reject("the node " + x.nodes[i]
               + " occurs twice; servers with copies need different processes");
  if (x.threads < 1)
    reject("threads is " + std::to_string(x.threads) + "; give at least 1");
  if (x.timeout < 1ms)
    reject("timeout is " + std::to_string(x.timeout.count())
           + " ms; give at least 1 ms");
  if (x.reconnect_interval < 0ms || x.reconnect_interval > 24h)
    reject("reconnect_interval is negative or above 24 hours");
  return x;
}

/// Describes a part of a variable to its server.
new_part description(const server_variable::impl& variable,
                     std::uint32_t part) {
  return {.part = variable.parts[part].part,
          .variable = variable.name,
          .dims = {variable.spec.dims.begin(), variable.spec.dims.end()},
          .index = part,
          .parts = variable.sharding.shards()};
}

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

void check_can_make_optimizer() {
  if (current_closure())
    throw std::logic_error("a closure cannot make an optimizer: it may be "
                           "executed several times");
}

/// Adds the parts of a variable to what each server has to remove.
void add_parts(const server_variable::impl& of,
               std::map<std::uint32_t, removal>& by_shard) {
  for (const auto& part : of.parts)
    by_shard[part.shard].parts.push_back(part.part);
}

} // namespace

/// What the process that has made the servers has.
struct parameter_servers::ownership {
  copy_supervisor_actor supervisor;
  std::vector<host_link> hosts; ///< That are threads of this process.
};

template <class Answer, class... Message>
Answer parameter_servers::ask_server(std::uint32_t shard,
                                     std::chrono::milliseconds timeout,
                                     const std::string& doing,
                                     Message&&... message) const {
  const auto what = "parameter server " + std::to_string(shard)
                    + (doing.empty() ? "" : ": " + doing);
  try {
    return ask<Answer>(system_, what, router_, timeout, shard,
                       std::forward<Message>(message)...);
  } catch (const job_error& e) {
    // The loss of a server ends all requests. Its text names the server.
    const std::string_view text = e.what();
    const auto named = text.rfind("parameter server ");
    if (e.code == ec::peer_lost && named != 0 && named != text.npos)
      throw job_error{e.code, std::string{text.substr(named)}};
    throw;
  }
}

bool end_actors(caf::actor_system& system, std::vector<caf::actor> actors,
                std::chrono::milliseconds timeout) {
  auto left = actors.size();
  {
    caf::scoped_actor self{system};
    for (const auto& one : actors) {
      self->monitor(one);
      self->send_exit(one, caf::exit_reason::user_shutdown);
    }
    actors.clear(); // these handles must not keep the actors alive
    bool late = false;
    while (left > 0 && !late)
      self->receive([&](const caf::down_msg&) { --left; },
                    caf::after(timeout) >> [&] { late = true; });
  }
  release_caf_logger();
  return left == 0;
}

parameter_servers::parameter_servers(runtime& actors,
                                     const parameter_server_options& options)
  : parameter_servers{actors, options, new_job(actors), 0, true} {}

parameter_servers::parameter_servers(runtime& actors,
                                     const parameter_server_options& options,
                                     const std::string& job,
                                     std::uint32_t shards)
  : parameter_servers{actors, options, job, shards, false} {}

parameter_servers::parameter_servers(runtime& actors,
                                     const parameter_server_options& options,
                                     const std::string& job,
                                     std::uint32_t shards, bool is_owner)
  : options_{check(options, shards, is_owner)},
    runtime_{actors},
    job_{job},
    system_{actors.system()},
    placement_{options_.servers, options_.placement} {
  std::vector<host_link> hosts;
  if (is_owner && options_.nodes.empty())
    hosts =
      make_local_hosts(system_, options_.servers, options_.max_server_bytes);
  else if (is_owner)
    for (const auto& address : options_.nodes) {
      const auto same = std::ranges::find(hosts, address, &host_link::address);
      hosts.push_back(
        same != hosts.end()
          ? host_link{*same} // it gets another server
          : make_shard_host(runtime_, address, options_.node_connection, job_,
                            options_.servers, options_.max_server_bytes));
    }
  auto addresses = options_.nodes;
  if (addresses.empty())
    for (const auto& one : hosts)
      addresses.push_back(one.address);
  // An error of the router comes before the timeout of its callers.
  const auto timeout =
    std::max(options_.timeout * 9 / 10, std::chrono::milliseconds{1});
  router_ = system_.spawn(
    shard_router,
    shard_router_config{
      random_number(), options_.servers, std::move(addresses),
      options_.nodes.empty()
        ? connect_local_hosts(hosts)
        : connect_shard_hosts(runtime_, options_.node_connection, job_),
      timeout, options_.copies, options_.node_connection.connect_timeout});
  if (is_owner)
    supervise(std::move(hosts));
  release_caf_logger();
}

/// Decides which hosts have the copies of each server.
void parameter_servers::supervise(std::vector<host_link> hosts) {
  ownership_ = std::make_unique<ownership>();
  if (options_.nodes.empty())
    ownership_->hosts = hosts;
  ownership_->supervisor = system_.spawn(
    copy_supervisor,
    copy_supervisor_config{
      options_.servers, options_.copies, std::move(hosts), router_,
      options_.copies > 1 ? options_.reconnect_interval : 0ms,
      make_shard_hosts(runtime_, options_.node_connection, job_,
                       options_.servers, options_.max_server_bytes)});
}

parameter_servers::~parameter_servers() {
  std::vector<caf::actor> actors;
  const auto add = [&](auto&& one) {
    actors.push_back(
      caf::actor_cast<caf::actor>(std::forward<decltype(one)>(one)));
  };
  if (const auto own = std::exchange(ownership_, {})) {
    add(std::move(own->supervisor));
    for (auto& one : own->hosts)
      add(std::move(one.host));
  }
  add(std::exchange(router_, {}));
  end_actors(system_, std::move(actors), 5s);
}

void parameter_servers::check_has_supervisor(const std::string& call) const {
  if (!ownership_ || options_.copies == 1)
    throw std::logic_error(call
                           + ": only the program of the coordinator, with "
                             "copies above 1, can call this function");
}

void parameter_servers::add_server(const std::string& address) {
  check_has_supervisor("add_server");
  const auto all = addresses();
  if (std::ranges::find(all, address) != all.end())
    throw std::invalid_argument("add_server: the node " + address
                                + " is a server already");
  const auto made =
    make_shard_host(runtime_, address, options_.node_connection, job_,
                    options_.servers, options_.max_server_bytes);
  ask<std::uint64_t>(system_, "add_server", ownership_->supervisor,
                     options_.timeout, made);
}

bool parameter_servers::wait_for_copies(
  std::chrono::milliseconds timeout) const {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (ownership_ && options_.copies > 1
         && !ask<copies_status>(system_, "the supervisor of copies",
                                ownership_->supervisor, options_.timeout,
                                atom::status_v)
               .is_settled) {
    if (std::chrono::steady_clock::now() >= end)
      return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

caf::actor_addr parameter_servers::supervisor() const {
  return ownership_ ? ownership_->supervisor.address() : caf::actor_addr{};
}

server_copies parameter_servers::copies() const {
  check_has_supervisor("copies");
  const auto x = ask<copies_status>(system_, "the supervisor of copies",
                                    ownership_->supervisor, options_.timeout,
                                    atom::status_v);
  return {std::ranges::min(x.in_sync), x.losses};
}

std::vector<std::string> parameter_servers::addresses() const {
  if (!ownership_ || options_.copies == 1)
    return options_.nodes;
  const auto table =
    ask<copy_table>(system_, "the supervisor of copies", ownership_->supervisor,
                    options_.timeout, atom::info_v);
  std::vector<std::string> out;
  for (const auto& one : table.servers)
    out.push_back(one.address);
  return out;
}

std::shared_ptr<server_variable::impl>
parameter_servers::place(const std::string& name, const tensor_spec& spec,
                         const parameter_server::row_sharding& sharding) {
  if (current_closure())
    throw std::logic_error("a closure cannot make the variable \"" + name
                           + "\": it may be executed several times");
  if (!ownership_)
    throw std::logic_error("a worker cannot make the variable \"" + name
                           + "\"; make it in the coordinator's program");
  const auto made = std::make_shared<server_variable::impl>();
  made->servers = shared_from_this();
  made->name = name;
  made->spec = spec;
  made->sharding = sharding;
  const std::lock_guard hold{lock_};
  if (!names_.emplace(name, next_part_).second)
    throw std::invalid_argument("there is a variable \"" + name + "\" already");
  made->shards = placement_.place(spec, sharding);
  for (const auto shard : made->shards)
    made->parts.push_back({shard, next_part_++});
  return made;
}

template <class F>
server_variable
parameter_servers::make_parts(const std::shared_ptr<server_variable::impl>& of,
                              const F& make) {
  try {
    for (std::uint32_t i = 0; i < of->sharding.shards(); ++i)
      make(i);
  } catch (...) {
    try {
      std::map<std::uint32_t, removal> made;
      add_parts(*of, made);
      remove_parts(made, options_.timeout);
      forget(*of);
    } catch (const job_error& e) {
      log(log_level::warning,
          "the variable \"" + of->name
            + "\" could not be made, and keeps its name: " + e.what());
    }
    throw;
  }
  return server_variable{of};
}

void parameter_servers::remove_parts(
  const std::map<std::uint32_t, removal>& by_shard,
  std::chrono::milliseconds timeout) const {
  for (const auto& [shard, parts] : by_shard)
    ask_server<std::uint64_t>(shard, timeout, "", parts);
}

void parameter_servers::forget(const server_variable::impl& variable) {
  variable.is_removed = true;
  if (!has_name(variable))
    return;
  const std::lock_guard hold{lock_};
  names_.erase(variable.name);
  placement_.remove(variable.spec, variable.sharding, variable.shards);
}

bool parameter_servers::has_name(const server_variable::impl& variable) {
  const std::lock_guard hold{lock_};
  const auto found = names_.find(variable.name);
  return found != names_.end() && found->second == variable.parts.front().part;
}

void parameter_servers::remove(std::span<const server_variable> variables,
                               std::vector<std::uint32_t> optimizers,
                               std::chrono::milliseconds timeout) {
  std::map<std::uint32_t, removal> by_shard;
  if (!optimizers.empty())
    for (std::uint32_t i = 0; i < options_.servers; ++i)
      by_shard[i].optimizers = optimizers;
  for (const auto& one : variables) {
    const auto what = "the variable \"" + one.name() + "\"";
    if (current_closure())
      throw std::logic_error("a closure cannot remove " + what
                             + ": it may be executed several times");
    if (!ownership_)
      throw std::logic_error("a worker cannot remove " + what
                             + "; remove it in the coordinator's program");
    if (one.state()->servers->job() != job_)
      throw std::logic_error(what + " belongs to parameter_server_strategy "
                             + one.state()->servers->job()
                             + ", and cannot be removed from " + job_);
    if (one.state()->is_removed || !has_name(*one.state()))
      throw std::logic_error(what + " was removed before");
    add_parts(*one.state(), by_shard);
  }
  remove_parts(by_shard, timeout);
  for (const auto& one : variables)
    forget(*one.state());
}

server_variable parameter_servers::make_variable(
  const std::string& name, const tensor_spec& spec,
  const std::function<tensor(parameter_server::row_range)>& initial) {
  parameter_server::check_dtype(spec);
  const auto made = place(
    name, spec, parameter_server::shard_rows(options_.partitioner, name, spec));
  return make_parts(made, [&](std::uint32_t i) {
    initialize(*made, i, initial(made->sharding.range_of(i)));
  });
}

server_variable
parameter_servers::make_table(const std::string& name, const shape& dims,
                              const parameter_server::table_rules& rules) {
  const tensor_spec spec{dims, dtype::float32};
  const auto sharding = parameter_server::shard_rows(
    options_.partitioner
      ? options_.partitioner
      : parameter_server::fixed_shards_partitioner(options_.servers),
    name, spec);
  for (std::uint32_t i = 0; i < sharding.shards(); ++i) // its errors
    static_cast<void>(
      parameter_server::table_part{dims, sharding.range_of(i), rules});
  const auto made = place(name, spec, sharding);
  made->is_table = true;
  new_table table{.initializer = rules.initial.name(),
                  .seed = rules.key.seed,
                  .op = rules.key.op,
                  .min_touches = rules.min_touches,
                  .max_idle_changes = rules.max_idle_changes};
  for (const auto& [key, value] : rules.initial.numbers()) {
    table.names.push_back(key);
    table.numbers.push_back(value);
  }
  return make_parts(made, [&](std::uint32_t i) {
    auto part = description(*made, i);
    part.is_table = true;
    part.table = table;
    made->parts[i].is_table = true;
    ask_server<std::uint64_t>(made->parts[i].shard, options_.timeout,
                              "table " + name, part, tensor::zeros({0}));
  });
}

void parameter_servers::initialize(const server_variable::impl& variable,
                                   std::uint32_t part, const tensor& values) {
  const auto rows = variable.sharding.range_of(part);
  auto expected = variable.spec;
  if (expected.dims.rank() > 0)
    expected.dims = expected.dims.with_extent(0, rows.size());
  if (values.spec() != expected)
    throw std::invalid_argument(
      "variable \"" + variable.name + "\": the initial value of rows "
      + std::to_string(rows.begin) + " to " + std::to_string(rows.end) + " is "
      + to_string(values.spec()) + ", not " + to_string(expected));
  ask_server<std::uint64_t>(variable.parts[part].shard, options_.timeout,
                            "variable " + variable.name,
                            description(variable, part), values.clone());
}

namespace {

/// Returns a variable without its parts.
/// @param one description of one of its parts.
std::shared_ptr<server_variable::impl>
found_variable(std::shared_ptr<parameter_servers> servers, const new_part& one,
               const tensor_spec& spec) {
  const auto out = std::make_shared<server_variable::impl>();
  out->servers = std::move(servers);
  out->name = one.variable;
  out->spec = spec;
  out->is_table = one.is_table;
  out->sharding = parameter_server::row_sharding{
    spec.dims.rank() == 0 ? 1 : spec.dims.front(), one.parts};
  out->shards.resize(one.parts);
  out->parts.resize(one.parts);
  return out;
}

} // namespace

server_variable parameter_servers::variable(const std::string& name) {
  if (current_closure())
    throw std::logic_error("a closure cannot look up the variable \"" + name
                           + "\"; do it before, in the factory");
  std::shared_ptr<server_variable::impl> found;
  std::uint32_t parts = 0;
  std::set<std::string> names;
  for (std::uint32_t i = 0; i < options_.servers; ++i) {
    const auto table =
      ask_server<part_table>(i, options_.timeout, "", atom::info_v);
    for (std::size_t k = 0; k < table.parts.size(); ++k) {
      const auto& one = table.parts[k];
      names.insert(one.variable);
      if (one.variable != name)
        continue;
      const tensor_spec spec{shape{one.dims},
                             static_cast<dtype>(table.types.at(k))};
      if (!found)
        found = found_variable(shared_from_this(), one, spec);
      found->shards.at(one.index) = i;
      found->parts.at(one.index) = {i, one.part, one.is_table};
      ++parts;
    }
  }
  if (found && parts == found->parts.size())
    return server_variable{found};
  std::string all;
  for (const auto& one : names)
    all += (all.empty() ? "" : ", ") + one;
  throw std::invalid_argument("there is no variable \"" + name
                              + "\"; there are: " + all);
}

void parameter_servers::check_use(const server_variable::impl& variable) const {
  const auto what = [&] { return "the variable \"" + variable.name + "\""; };
  if (variable.is_removed)
    throw std::logic_error(what() + " was removed; make it again");
  const auto user = servers_of_closure();
  if (!user.empty() && user != job_)
    throw std::logic_error(
      what() + " belongs to parameter_server_strategy " + job_
      + ", but the closure that uses it to " + std::string{user}
      + "; use variables of the strategy that has the coordinator");
}

std::vector<tensor>
parameter_servers::pull(const server_variable::impl& of,
                        const std::vector<read>& parts) const {
  check_use(of);
  if (auto* const closure = current_closure())
    return closure->pull(parts);
  std::vector<tensor> out;
  for (const auto& at : parts)
    out.push_back(
      ask_server<tensor>(at.shard, options_.timeout, "",
                         part_pull{at.part, static_cast<bool>(at.rows), {}},
                         at.rows ? tensors{at.rows} : tensors{}));
  return out;
}

void parameter_servers::change(const server_variable::impl& of,
                               std::vector<change_of_part>&& changes) const {
  check_use(of);
  if (auto* const closure = current_closure()) {
    for (auto& [to, what] : changes)
      closure->change(to, std::move(what));
    return;
  }
  std::map<std::uint32_t, std::vector<addressed_change>> by_shard;
  for (auto& [to, what] : changes)
    by_shard[to.shard].push_back({to.part, std::move(what)});
  for (const auto& [shard, list] : by_shard) {
    const auto encoded = encode(list);
    ask_server<std::uint64_t>(shard, options_.timeout, "", encoded.list,
                              encoded.operands);
  }
}

tensor parameter_servers::pull_optimizer(const server_variable::impl& of,
                                         const address& part,
                                         std::uint32_t optimizer,
                                         std::uint32_t slot) const {
  if (current_closure())
    throw std::logic_error("a closure cannot read the state of an optimizer");
  check_use(of);
  return ask_server<tensor>(part.shard, options_.timeout, "",
                            optimizer_pull{part.part, optimizer, slot});
}

std::vector<server_status> parameter_servers::status() const {
  std::vector<server_status> out;
  for (std::uint32_t i = 0; i < options_.servers; ++i) {
    const auto x =
      ask_server<shard_status>(i, options_.timeout, "", atom::status_v);
    out.push_back(
      {.parts = x.parts,
       .bytes = x.bytes,
       .rows = x.rows,
       .updates = x.updates,
       .waiting = x.waiting,
       .staleness = {x.gradients, x.staleness_sum, x.largest_staleness}});
  }
  return out;
}

std::uint32_t parameter_servers::make_optimizer(const update_rule& rule) {
  check_can_make_optimizer();
  std::uint32_t number = 0;
  {
    const std::lock_guard hold{lock_};
    number = optimizers_++;
  }
  make_optimizer(rule, number);
  return number;
}

std::uint32_t parameter_servers::make_optimizer(const update_rule& rule,
                                                const server_variable& values) {
  check_can_make_optimizer();
  const auto part = values.state()->parts.front().part;
  if (part >= model_optimizer)
    throw std::logic_error("the strategy has made too many variables");
  const auto number = model_optimizer | static_cast<std::uint32_t>(part);
  make_optimizer(rule, number);
  return number;
}

void parameter_servers::make_optimizer(const update_rule& rule,
                                       std::uint32_t number) const {
  new_optimizer made{.optimizer = number, .rule = std::string{rule.name()}};
  for (const auto& [name, value] : rule.numbers()) {
    made.names.push_back(name);
    made.numbers.push_back(value);
  }
  for (std::uint32_t i = 0; i < options_.servers; ++i)
    ask_server<std::uint64_t>(i, options_.timeout, "", made);
}

std::uint64_t parameter_servers::begin_training(
  const training_layout& layout,
  std::span<const parameter_server::consistency> rules, std::uint32_t replicas,
  std::uint32_t optimizer) {
  if (current_closure())
    throw std::logic_error("a closure cannot begin a training");
  if (!ownership_)
    throw std::logic_error("a worker on a node cannot begin a training");
  if (rules.size() != layout.variables().size())
    throw std::logic_error("a training of "
                           + std::to_string(layout.variables().size())
                           + " variables with " + std::to_string(rules.size())
                           + " kinds of consistency");
  for (const auto& one : layout.variables())
    if (one.state()->servers.get() != this)
      throw std::logic_error("the variable \"" + one.name()
                             + "\" is of another strategy");
  const auto number = take_training_number();
  for (std::uint32_t i = 0; i < options_.servers; ++i)
    ask_server<std::uint64_t>(i, options_.timeout, "", new_training{optimizer},
                              layout.training_of(i, number, replicas, rules));
  return number;
}

void parameter_servers::end_training(std::uint32_t optimizer,
                                     std::chrono::milliseconds timeout) {
  const auto number = take_training_number();
  std::exception_ptr error;
  for (std::uint32_t i = 0; i < options_.servers; ++i)
    try {
      ask_server<std::uint64_t>(i, timeout, "", new_training{optimizer},
                                parameter_server::training{number, 1, {}});
    } catch (const job_error&) {
      error = std::current_exception();
    }
  if (error)
    std::rethrow_exception(error);
}

std::uint64_t parameter_servers::take_training_number() {
  const std::lock_guard hold{lock_};
  return ++trainings_;
}

std::pair<std::uint64_t, std::uint64_t> parameter_servers::begin_coordinator() {
  const std::lock_guard hold{lock_};
  if (has_coordinator_)
    throw std::logic_error("the parameter servers have a cluster_coordinator "
                           "already; use that one, or end it first");
  has_coordinator_ = true;
  return {++coordinators_, closures_};
}

void parameter_servers::end_coordinator(std::uint64_t closures) {
  const std::lock_guard hold{lock_};
  has_coordinator_ = false;
  closures_ += closures;
}

void register_parameter_server(
  runtime& actors, const client_options& to_servers,
  const std::shared_ptr<injection::process_fault_injector>& faults) {
  std::function<void()> before_answer;
  if (faults)
    before_answer = [faults] { faults->on_answer(); };
  register_shard_host(actors, to_servers, before_answer);
}

// -- the strategy -------------------------------------------------------------

namespace {

/// Returns the key of the initial values of a table.
/// @source the hash FNV-1a
random_key table_key(std::uint64_t seed, const std::string& name) {
  std::uint32_t hash = 2166136261u;
  for (const unsigned char one : name)
    hash = (hash ^ one) * 16777619u;
  return initial_key(seed, hash % (1u << 30));
}

} // namespace

parameter_server_strategy::parameter_server_strategy(
  runtime& actors, const parameter_server_options& options)
  : servers_{std::make_shared<parameter_servers>(actors, options)} {}

server_variable
parameter_server_strategy::make_variable(const std::string& name,
                                         const tensor& initial) const {
  return make_variable(
    name, initial.spec(), [&](const parameter_server::row_range& rows) {
      return initial.dims().rank() == 0 ? initial
                                        : initial.slice(rows.begin, rows.end);
    });
}

server_variable parameter_server_strategy::make_variable(
  const std::string& name, const tensor_spec& spec,
  const std::function<tensor(parameter_server::row_range)>& initial) const {
  return servers_->make_variable(name, spec, initial);
}

server_variable
parameter_server_strategy::make_table(const std::string& name,
                                      const table_options& options) const {
  const auto reject = [&](const char* option, std::int64_t value) {
    throw std::invalid_argument("table_options: " + std::string{option}
                                + " of \"" + name + "\" is "
                                + std::to_string(value) + "; give at least 1");
  };
  if (options.rows < 1)
    reject("rows", options.rows);
  if (options.row_elements < 1)
    reject("row_elements", options.row_elements);
  return servers_->make_table(name, {options.rows, options.row_elements},
                              {.initial = options.initial,
                               .key = table_key(options.seed, name),
                               .min_touches = options.min_touches,
                               .max_idle_changes = options.max_idle_changes});
}

server_variable
parameter_server_strategy::variable(const std::string& name) const {
  return servers_->variable(name);
}

void parameter_server_strategy::remove_variable(
  const server_variable& variable) const {
  servers_->remove({&variable, 1}, {}, servers_->options().timeout);
}

const std::string& parameter_server_strategy::name() const {
  return servers_->job();
}

void parameter_server_strategy::add_server(const std::string& address) const {
  servers_->add_server(address);
}

bool parameter_server_strategy::wait_for_copies(
  std::chrono::milliseconds timeout) const {
  return servers_->wait_for_copies(timeout);
}

server_copies parameter_server_strategy::copies() const {
  return servers_->copies();
}

const parameter_server_options& parameter_server_strategy::options() const {
  return servers_->options();
}

std::vector<server_status> parameter_server_strategy::status() const {
  return servers_->status();
}

} // namespace troupe
