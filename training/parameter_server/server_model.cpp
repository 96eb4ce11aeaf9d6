#include "troupe/training/parameter_server/server_model.hpp"

#include "troupe/actors/core/log.hpp"
#include "troupe/models/losses.hpp"
#include "troupe/models/network.hpp"
#include "troupe/strategies/parameter_server/table_consistency.hpp"
#include "troupe/tensors/base/exact_numbers.hpp"
#include "troupe/training/loop/fit/fit_warnings.hpp"
#include "troupe/training/loop/fit/resumed_position.hpp"
#include "troupe/training/loop/model/finite_weights.hpp"
#include "troupe/training/loop/model/fit_checks.hpp"
#include "troupe/training/loop/model/model_state.hpp"
#include "troupe/training/loop/options/metric_list.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"
#include "troupe/training/parameter_server/server_batches.hpp"
#include "troupe/training/parameter_server/server_epoch.hpp"
#include "troupe/training/parameter_server/server_network.hpp"
#include "troupe/training/parameter_server/staleness_warning.hpp"
#include "troupe/training/support/atomic_file.hpp"
#include "troupe/training/support/describe_model.hpp"
#include "troupe/training/support/sha256.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

namespace {

using parameter_server::consistency_kind;

/// Maximum wait for each server at the end of a model.
constexpr std::chrono::milliseconds max_removal_time{5000};

[[noreturn]] void reject(const std::string& what) {
  throw std::invalid_argument("server_fit_options: " + what);
}

std::string text_of(const parameter_server::consistency& x) {
  switch (x.kind) {
    case consistency_kind::asynchronous:
      return "asynchronous";
    case consistency_kind::bounded:
      return "bounded with max_staleness " + std::to_string(x.max_staleness);
    case consistency_kind::synchronous:
      break;
  }
  return "synchronous with backup_workers " + std::to_string(x.backup_workers);
}

/// @errors throws std::invalid_argument if the members of a rule contradict
///         each other.
void check(const parameter_server::consistency& rule) {
  if (rule.max_staleness > 0 && rule.kind != consistency_kind::bounded)
    reject("max_staleness is " + std::to_string(rule.max_staleness)
           + "; only bounded consistency has one");
  if (rule.backup_workers > 0 && rule.kind != consistency_kind::synchronous)
    reject("backup_workers is " + std::to_string(rule.backup_workers)
           + "; only synchronous consistency has some");
}

/// @errors throws std::invalid_argument if the tables cannot have the
///         consistency that the options give them.
void check_tables(const server_fit_options& options,
                  const server_network& network) {
  if (!options.table_consistency)
    return;
  const auto& of_tables = *options.table_consistency;
  check(of_tables);
  if (network.tables().empty())
    reject("table_consistency is " + text_of(of_tables) + ", but the model \""
           + network.net().name() + "\" has no table; leave it out");
  if (!allows_table_consistency(options.consistency, of_tables))
    reject("table_consistency is " + text_of(of_tables)
           + ", but consistency is " + text_of(options.consistency)
           + "; leave it out, or give synchronous consistency and tables that "
             "are asynchronous or bounded");
}

/// Returns the number of replicas of a fit.
/// @errors throws std::invalid_argument if the options contradict it.
std::uint32_t replicas_of(const server_fit_options& options,
                          const cluster_coordinator& coordinator) {
  const auto& rule = options.consistency;
  check(rule);
  const auto replicas =
    options.replicas > 0
      ? options.replicas
      : std::max(1u, static_cast<std::uint32_t>(coordinator.workers().size()));
  if (rule.backup_workers >= replicas)
    reject("backup_workers is " + std::to_string(rule.backup_workers) + " of "
           + std::to_string(replicas) + " replicas; give fewer");
  return replicas;
}

/// Reserves the workers of a coordinator for a call of a model.
/// @errors throws std::logic_error if the model is on servers of another
///         strategy, and as `cluster_coordinator::lock_workers`.
std::unique_lock<std::recursive_mutex>
lock_workers(const std::string& call, const server_network& network,
             cluster_coordinator& coordinator) {
  const auto& values = network.values();
  const auto& owner = values.state()->servers->job();
  if (coordinator.strategy_name() != owner)
    throw std::logic_error(
      call + ": the model \"" + network.net().name() + "\" (variable \""
      + values.name() + "\") belongs to parameter_server_strategy " + owner
      + ", but the coordinator to " + coordinator.strategy_name()
      + "; give a coordinator of the strategy of the model");
  return coordinator.lock_workers(call);
}

/// Waits after an error until no closure is executed any more, because what a
/// closure calls may belong to the caller of `fit`.
void wait_for_closures(cluster_coordinator& coordinator) {
  try {
    while (!coordinator.join_for(std::chrono::milliseconds{100}))
      if (coordinator.workers().empty())
        return; // none can be executed
  } catch (const std::exception& e) {
    log(log_level::debug, std::string{"after an error of a fit: "} + e.what());
  }
}

/// @errors throws std::invalid_argument if the networks have parameters of
/// other
///         names or shapes.
void check_equal_parameters(const models::network& own,
                            const models::network& other,
                            const std::string& call) {
  const bool are_equal = std::ranges::equal(
    own.parameters(), other.parameters(), [](const auto& x, const auto& y) {
      return x.name == y.name && x.dims == y.dims;
    });
  if (!are_equal)
    throw std::invalid_argument(call + ": the model \"" + other.name()
                                + "\" has other parameters than \"" + own.name()
                                + "\"");
}

/// Calls `fn(first element, rows)` for all rows of a table, in their order. Not
/// all of them are in memory at once.
template <class F>
void for_rows(const server_variable& table, const F& fn) {
  constexpr std::int64_t elements = std::int64_t{1} << 22; // of a call
  const auto& dims = table.spec().dims;
  const auto row = std::int64_t(dims.axes(1, dims.rank()).elements());
  const auto step = std::max<std::int64_t>(1, elements / row);
  for (std::int64_t begin = 0; begin < dims.front(); begin += step) {
    const auto end = std::min(dims.front(), begin + step);
    tensor ids{{shape{end - begin}, dtype::int64}};
    const auto numbers = ids.mutable_data<std::int64_t>();
    std::iota(numbers.begin(), numbers.end(), begin);
    fn(static_cast<std::size_t>(begin * row), table.lookup(ids));
  }
}

std::size_t elements_of(const models::network& net, std::size_t parameter) {
  return net.parameters()[parameter].dims.elements();
}

/// Returns the elements of a tensor as one axis.
tensor flat(const tensor& x) {
  return x.reshaped({static_cast<std::int64_t>(x.size())});
}

/// Tables with more elements are not read to be checked.
constexpr std::size_t max_checked_elements = std::size_t{1} << 24;

/// Checks that all parameters are finite, but for those of very large tables.
/// @param steps that the model has made.
/// @errors throws std::runtime_error as `check_finite_weights`.
void check_finite(const server_network& network, std::uint64_t steps) {
  const auto& all = network.net().parameters();
  const auto values = network.values().value();
  for (std::size_t i = 0; i < network.dense().size(); ++i) {
    const auto& one = all[network.dense()[i]];
    const auto begin = network.layout().offset(i);
    const auto own = values.range(begin, begin + one.dims.elements());
    check_finite_weights(one.name, own.data<float>(), steps);
  }
  for (const auto& table : network.tables())
    if (const auto& one = all[table.parameter];
        one.dims.elements() <= max_checked_elements)
      for_rows(table.values, [&](std::size_t, const tensor& rows) {
        check_finite_weights(one.name, rows.data<float>(), steps);
      });
}

/// Copies the parameters but tables between the variable of the servers and all
/// parameters of a model.
/// @param fn called with the range of each in both.
template <class F>
void for_dense(const server_network& network, const parameters& of_model,
               const F& fn) {
  for (std::size_t i = 0; i < network.dense().size(); ++i) {
    const auto parameter = network.dense()[i];
    fn(network.layout().offset(i), of_model.offset(parameter),
       elements_of(network.net(), parameter));
  }
}

std::string text_of(const update_rule& rule) {
  return std::string{rule.name()} + exact_text(rule.numbers());
}

/// True if the state of an optimizer of one rule is one of the other. Else says
/// so.
bool can_take_state(const std::string& call, const update_rule& from,
                    const update_rule& to) {
  if (describe_rule(from) == describe_rule(to))
    return true;
  log(log_level::warning,
      call
        + " has copied the parameters only, without steps, position and "
          "state of the optimizer: the rules are "
        + text_of(from) + " and " + text_of(to));
  return false;
}

} // namespace

struct server_model::impl {
  impl(const parameter_server_strategy& strategy, const std::string& name,
       const models::model_description& architecture, const update_rule& rule,
       const model_options& options)
    : network{std::make_shared<server_network>(strategy, name, architecture,
                                               rule, options)} {}
  ~impl() { remove_variables(); }
  impl(const impl&) = delete;
  impl& operator=(const impl&) = delete;

  /// The variables keep their names if a server does not answer.
  void remove_variables() const {
    try {
      const auto& servers = network->values().state()->servers;
      servers->remove(network->variables(), {network->optimizer().number()},
                      std::min(max_removal_time, servers->options().timeout));
    } catch (const std::exception& e) {
      log(log_level::debug, "the variables of the model \""
                              + network->net().name()
                              + "\" could not be removed: " + e.what());
    }
  }

  const std::shared_ptr<const server_network> network;
  std::uint64_t steps = 0;
  std::uint64_t next_epoch = 0; ///< Of the dataset.
  std::optional<fit_position> interrupted{};
};

namespace {

/// Returns the position at which a fit begins.
/// @param batches of an epoch.
fit_position position_of(const server_fit_options& options,
                         std::uint32_t replicas, std::uint64_t batches,
                         const metric_list& metrics, std::uint64_t next_epoch) {
  fit_position out;
  out.first_epoch = options.first_epoch.value_or(next_epoch);
  out.next_batch = {out.first_epoch, 0};
  out.metrics = metrics.description();
  out.batches = batches;
  // Only synchronous steps divide a batch.
  if (options.consistency.kind == consistency_kind::synchronous)
    out.replicas = replicas;
  return out;
}

/// Returns the learning rate of a step.
float rate_of(const server_fit_options& options, const server_network& network,
              std::uint64_t step) {
  return options.schedule ? options.schedule->at(step)
                          : network.optimizer().rule().learning_rate();
}

/// Adds the rates of the last steps of a model.
void add_rates(rate_warning& to, const server_fit_options& options,
               const server_network& network, std::uint64_t count,
               std::uint64_t all_steps) {
  for (auto i = all_steps - count; i < all_steps && to.asks_for_more(); ++i)
    to.add(rate_of(options, network, i));
}

/// Returns what measures the staleness of the gradients of a fit. Empty: none
/// is stale, or the loss may have fallen before this fit.
std::function<parameter_server::gradient_staleness()>
staleness_of(const server_fit_options& options, const server_network& network,
             std::uint64_t earlier_steps) {
  if (options.consistency.kind == consistency_kind::synchronous
      || earlier_steps > 0)
    return {};
  return [servers = network.values().state()->servers] {
    parameter_server::gradient_staleness sum;
    for (const auto& one : servers->status())
      sum += one.staleness;
    return sum;
  };
}

/// Returns the record of an epoch that is complete, without validation.
epoch_record record_of(const fit_position& at, std::uint64_t steps,
                       const metric_list& metrics, double learning_rate) {
  epoch_record out{.epoch = at.epochs_done() + 1,
                   .steps = steps,
                   .examples = at.totals.examples,
                   .loss = at.totals.mean_loss(),
                   .metrics = at.totals.values(metrics),
                   .learning_rate = learning_rate,
                   .seconds = at.totals.seconds};
  out.accuracy = accuracy_in(out.metrics);
  return out;
}

} // namespace

server_model::server_model(const parameter_server_strategy& strategy,
                           const std::string& name,
                           const models::model_description& architecture,
                           const update_rule& rule,
                           const model_options& options)
  : impl_{std::make_unique<impl>(strategy, name, architecture, rule, options)} {
}

server_model::~server_model() = default;

history server_model::fit(cluster_coordinator& coordinator,
                          const data::dataset& batches,
                          const server_fit_options& options) {
  auto& self = *impl_;
  const auto& network = *self.network;
  const auto use = lock_workers("fit", network, coordinator);
  check_fit(network.net(), network.used_loss(), self.steps, batches, options);
  reserve_descriptors(); // to save the model in any case
  const auto replicas = replicas_of(options, coordinator);
  if (options.consistency.kind == consistency_kind::synchronous)
    check_batch_rows(batches, replicas);
  check_tables(options, network);
  const auto source = std::make_shared<const server_batches>(
    metrics_of(network.used_loss(), options.metrics), options.class_weights,
    batches, options.validation);
  const auto& metrics = source->metrics;
  auto at =
    position_of(options, replicas, *batches.size(), metrics, self.next_epoch);
  // The data is read only if it is compared, or known to others.
  const auto identify_data = [&] {
    if (!at.data)
      at.data = source->training_identity();
  };
  if (options.resume) {
    identify_data();
    at = resumed_position(self.interrupted, at,
                          {options.first_epoch, options.epochs});
  }
  self.interrupted.reset();
  progress shown{options.progress};
  auto end = fit_end::done;
  auto steps_left = options.max_steps > 0
                      ? options.max_steps
                      : std::numeric_limits<std::uint64_t>::max();
  const auto steps_to_pause = [&] {
    return options.pause_steps > 0
             ? options.pause_steps - self.steps % options.pause_steps
             : std::numeric_limits<std::uint64_t>::max();
  };
  // The function may copy the model.
  const auto call = [&](const auto& fn, const auto&... args) {
    if (!fn)
      return;
    identify_data();
    self.interrupted = at;
    fn(args...);
    self.interrupted.reset();
  };
  bool begins_epoch = true;
  rate_warning rates;
  staleness_warning staleness{staleness_of(options, network, self.steps)};
  const auto first_step = self.steps;
  while (end == fit_end::done && at.epochs_done() < options.epochs) {
    if (std::exchange(begins_epoch, false))
      shown.begin({.epoch = at.epochs_done() + 1,
                   .epochs = options.epochs,
                   .step = at.next_batch.index,
                   .steps = at.batches,
                   .examples = at.totals.examples},
                  metrics, at.totals.sums);
    server_epoch run{coordinator,   self.network, source, options,
                     at.next_batch, self.steps,   &shown, &staleness};
    const auto add_steps = [&] { // their numbers are not used again
      self.steps += run.steps();
      if (run.steps() > 0)
        self.next_epoch = at.next_batch.epoch + 1;
    };
    const auto max_steps = std::min(steps_left, steps_to_pause());
    try {
      at.totals = run.train(replicas, max_steps, std::move(at.totals));
    } catch (...) {
      add_steps();
      wait_for_closures(coordinator);
      throw;
    }
    add_steps();
    at.next_batch.index += run.steps();
    steps_left -= run.steps();
    add_rates(rates, options, network, run.steps(), self.steps);
    rates.warn(self.steps - first_step, self.steps, options.schedule);
    const bool ends_epoch = at.next_batch.index >= at.batches;
    if (steps_left == 0)
      end = fit_end::max_steps;
    else if ((!ends_epoch && run.steps() < max_steps)
             || (options.stop && *options.stop))
      end = fit_end::interrupted;
    if (ends_epoch) {
      auto record = record_of(at, self.steps, metrics,
                              rate_of(options, network, self.steps - 1));
      if (options.validation) {
        const auto found =
          server_epoch{coordinator, self.network, source, options, {},
                       0,           nullptr}
            .score();
        record.validation_loss = found.mean_loss();
        record.validation_metrics = found.values(metrics);
        record.validation_accuracy = accuracy_in(record.validation_metrics);
      }
      warn_if_without_update(record);
      staleness.warn(self.steps);
      at.next_batch = {at.next_batch.epoch + 1, 0};
      at.totals = {};
      at.epochs.push_back(record);
      shown.end(record);
      begins_epoch = true;
      call(options.on_epoch_end, record);
    }
    const bool is_over =
      end != fit_end::done || at.epochs_done() >= options.epochs;
    if (!is_over && run.steps() == max_steps)
      call(options.on_pause);
  }
  shown.finish_line();
  if (at.epochs_done() >= options.epochs)
    end = fit_end::done; // it was interrupted after its last step
  identify_data();
  self.interrupted = end == fit_end::done ? at.completed() : at;
  check_finite(network, self.steps);
  return {std::move(at.epochs), end};
}

evaluation server_model::evaluate(cluster_coordinator& coordinator,
                                  const data::dataset& batches,
                                  const evaluate_options& options) {
  const auto& network = *impl_->network;
  const auto use = lock_workers("evaluate", network, coordinator);
  check_data(network.net(), network.used_loss(), batches,
             "the evaluation data");
  const auto source = std::make_shared<const server_batches>(
    metrics_of(network.used_loss(), options.metrics), std::vector<float>{},
    std::nullopt, batches);
  const server_fit_options defaults;
  const auto totals =
    server_epoch{coordinator, impl_->network, source, defaults, {}, 0, nullptr}
      .score();
  evaluation out{totals.examples, totals.mean_loss()};
  out.metrics = totals.values(source->metrics);
  out.accuracy = accuracy_in(out.metrics);
  return out;
}

std::string server_model::weights_sha256() const {
  sha256 hash;
  const auto& network = *impl_->network;
  const auto values = network.values().value();
  std::size_t dense = 0, table = 0;
  for (std::size_t i = 0; i < network.net().parameters().size(); ++i) {
    if (network.net().parameters()[i].is_table) {
      for_rows(network.tables()[table++].values,
               [&](std::size_t, const tensor& rows) {
                 hash.add(std::as_bytes(rows.data<float>()));
               });
      continue;
    }
    const auto begin = network.layout().offset(dense++);
    hash.add(
      std::as_bytes(values.range(begin, begin + elements_of(network.net(), i))
                      .data<float>()));
  }
  return to_hex(hash.finish());
}

bool server_model::copy_to(model& target) const {
  auto& to = *target.state();
  check_equal_parameters(impl_->network->net(), to.net, "copy_to");
  const auto& network = *impl_->network;
  const auto& all = to.model_parameters;
  const auto copy_dense = [&](const tensor& from, const tensor& into) {
    for_dense(network, all, [&](std::size_t i, std::size_t k, std::size_t n) {
      into.range(k, k + n).copy_from(from.range(i, i + n));
    });
  };
  copy_dense(network.values().value(), all.values(0));
  for (const auto& table : network.tables())
    for_rows(table.values, [&](std::size_t first, const tensor& rows) {
      const auto begin = all.offset(table.parameter) + first;
      all.values(0).range(begin, begin + rows.size()).copy_from(flat(rows));
    });
  to.interrupted.reset();
  const bool takes_state =
    can_take_state("copy_to", network.optimizer().rule(), to.rule);
  if (takes_state) {
    const auto from = network.optimizer().state_of(network.values());
    for (std::size_t slot = 0; slot < from.slots.size(); ++slot)
      copy_dense(from.slots[slot], to.slots[0][slot]);
    for (const auto& table : network.tables()) {
      const auto slots = network.optimizer().state_of(table.values).slots;
      const auto begin = all.offset(table.parameter);
      for (std::size_t slot = 0; slot < slots.size(); ++slot)
        to.slots[0][slot]
          .range(begin, begin + slots[slot].size())
          .copy_from(flat(slots[slot]));
    }
    to.loop_optimizer.take_updates();
    to.steps = impl_->steps;
    to.next_epoch = impl_->next_epoch;
    to.interrupted = impl_->interrupted;
  }
  to.broadcast_copy(0);
  return takes_state;
}

bool server_model::copy_from(const model& source) {
  const auto& from = *source.state();
  check_equal_parameters(impl_->network->net(), from.net, "copy_from");
  from.check_readable();
  const auto& network = *impl_->network;
  const auto& all = from.model_parameters;
  const auto dense_of = [&](const tensor& elements) {
    auto out = tensor::zeros(network.values().spec().dims);
    for_dense(network, all, [&](std::size_t i, std::size_t k, std::size_t n) {
      out.range(i, i + n).copy_from(elements.range(k, k + n));
    });
    return out;
  };
  const auto rows_of = [&](const tensor& elements, const server_table& table) {
    const auto begin = all.offset(table.parameter);
    const auto& dims = table.values.spec().dims;
    return elements.range(begin, begin + dims.elements())
      .to({})
      .clone()
      .reshaped(dims);
  };
  network.values().assign(dense_of(all.values(0)));
  for (const auto& table : network.tables())
    table.values.assign(rows_of(all.values(0), table));
  impl_->interrupted.reset();
  if (!can_take_state("copy_from", from.rule, network.optimizer().rule()))
    return false;
  server_optimizer::state to{.steps = source.steps(), .slots = {}};
  for (const auto& slot : from.slots[0])
    to.slots.push_back(dense_of(slot));
  network.optimizer().restore(network.values(), to);
  for (const auto& table : network.tables()) {
    for (std::size_t slot = 0; slot < to.slots.size(); ++slot)
      to.slots[slot] = rows_of(from.slots[0][slot], table);
    network.optimizer().restore(table.values, to);
  }
  impl_->steps = to.steps;
  impl_->next_epoch = from.next_epoch;
  impl_->interrupted = from.interrupted;
  return true;
}

std::uint64_t server_model::steps() const {
  return impl_->steps;
}

const server_variable& server_model::variable() const {
  return impl_->network->values();
}

} // namespace troupe
