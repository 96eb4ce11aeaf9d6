#include "troupe/training/parameter_server/server_epoch.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"
#include "troupe/training/parameter_server/replica_steps.hpp"
#include "troupe/training/parameter_server/training_chief.hpp"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

namespace troupe {

namespace {

using namespace std::chrono_literals;
using parameter_server::consistency;
using parameter_server::consistency_kind;

constexpr auto try_this = " (try a smaller learning rate, or on_nan skip, in "
                          "the tool --on-nan skip)";
/// How often a wait looks at the flag that ends a fit.
constexpr std::chrono::milliseconds stop_interval{100};
/// Time for which a fit that was told to stop waits for a worker.
constexpr std::chrono::seconds worker_timeout{5};
/// Maximum wait for each server when a fit ends with an error.
constexpr std::chrono::milliseconds max_end_time{5000};
/// Time that the steps of a closure should take. A fit that is told to stop
/// waits for them.
constexpr auto share_time = 250ms;
constexpr std::uint64_t max_share_steps = 1024;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
    .count();
}

/// Returns how many of `count` batches a replica gets, of which batch c R + r
/// is that of replica r.
std::uint64_t steps_of(std::uint32_t replica, std::uint32_t replicas,
                       std::uint64_t count) {
  return count / replicas + (replica < count % replicas ? 1 : 0);
}

std::string not_finite_text(std::uint64_t step) {
  return "the loss or gradient of step " + std::to_string(step)
         + " is not finite";
}

} // namespace

server_epoch::server_epoch(cluster_coordinator& coordinator,
                           std::shared_ptr<const server_network> network,
                           std::shared_ptr<const server_batches> batches,
                           const server_fit_options& options,
                           const data::position& first,
                           std::uint64_t first_step, progress* shown,
                           staleness_warning* staleness)
  : coordinator_{coordinator},
    network_{std::move(network)},
    batches_{std::move(batches)},
    options_{options},
    table_consistency_{options.table_consistency},
    first_{first},
    first_step_{first_step},
    shown_{shown},
    staleness_{staleness} {}

epoch_totals server_epoch::train(std::uint32_t replicas,
                                 std::uint64_t max_steps, epoch_totals totals) {
  totals_ = std::move(totals);
  size_ = batches_->training->size().value();
  count_ = std::min(max_steps, size_ - std::min(size_, first_.index));
  replicas_ = replicas;
  const auto begin = std::chrono::steady_clock::now();
  begin_training();
  try {
    if (options_.consistency.kind == consistency_kind::synchronous)
      train_synchronously();
    else
      train_with_clocks();
    coordinator_.join();
    end_training(network_->values().state()->servers->options().timeout);
  } catch (...) {
    end_after_error();
    throw;
  }
  totals_.seconds += seconds_since(begin);
  return totals_;
}

epoch_totals server_epoch::score() {
  size_ = batches_->validation->size().value();
  const auto begin = std::chrono::steady_clock::now();
  std::vector<result> all;
  for (std::uint64_t i = 0; i < size_; ++i)
    all.push_back(schedule(score_task{i, size_}));
  for (std::uint64_t i = 0; i < size_; ++i) {
    wait_for_all({all[i]});
    count(decode_metrics(all[i].get(), 1, batches_->metrics.sum_count())[0], i);
  }
  totals_.seconds = seconds_since(begin);
  return totals_;
}

// -- steps of one replica each ------------------------------------------------

/// Replicas that wait for others shall end, too.
void server_epoch::end_after_error() const {
  try {
    const auto& servers = *network_->values().state()->servers;
    end_training(std::min(max_end_time, servers.options().timeout));
  } catch (const std::exception& e) {
    log(log_level::debug, std::string{"after an error of a fit: "} + e.what());
  }
}

void server_epoch::train_with_clocks() {
  metrics_.resize(count_);
  for (std::uint32_t r = 0; r < replicas_; ++r)
    shares_.push_back({.steps = steps_of(r, replicas_, count_)});
  for (;;) {
    if (is_stopped()) { // no batch before one that has begun is left out
      const auto last = std::ranges::max(shares_, {}, &step_share::end).end;
      for (auto& one : shares_)
        one.steps = std::min(one.steps, last);
    }
    std::vector<result> running;
    for (std::uint32_t r = 0; r < replicas_; ++r) {
      begin_share(r);
      if (shares_[r].running)
        running.push_back(*shares_[r].running);
    }
    if (running.empty())
      return;
    wait_for_some(running, 1, stop_interval);
    for (std::uint32_t r = 0; r < replicas_; ++r)
      end_share(r);
    count_done();
  }
}

void server_epoch::begin_share(std::uint32_t replica) {
  auto& one = shares_[replica];
  if (one.running || one.end == one.steps)
    return;
  one.end += std::min(one.length, one.steps - one.end);
  one.begun = std::chrono::steady_clock::now();
  // A replica that is bounded waits for others, which must be executed too.
  const bool is_bounded =
    options_.consistency.kind == consistency_kind::bounded;
  auto task = task_of(replica, one.done, one.end);
  steps_ = std::max(steps_, task.batch_of(one.end - 1) + 1);
  one.running = schedule(task, {.waits_for_others = is_bounded});
}

void server_epoch::end_share(std::uint32_t replica) {
  auto& one = shares_[replica];
  if (!one.running || one.running->status() == remote_value_status::not_ready)
    return;
  // A closure is cancelled before the error of another one is known.
  if (one.running->status() == remote_value_status::aborted)
    coordinator_.join(); // throws it
  const auto steps = one.end - one.done;
  auto found =
    decode_metrics(one.running->get(), steps, batches_->metrics.sum_count());
  const auto task = task_of(replica, one.done, one.end);
  for (std::uint64_t i = 0; i < steps; ++i)
    metrics_[task.batch_of(one.done + i)] = std::move(found[i]);
  one.done = one.end;
  one.running.reset();
  const auto taken = std::chrono::steady_clock::now() - one.begun;
  if (taken < share_time / 2)
    one.length = std::min(2 * one.length, max_share_steps);
  else if (taken > share_time)
    one.length = std::max<std::uint64_t>(1, one.length / 2);
}

/// Counts the batches below the lowest clock of the replicas, in their order.
void server_epoch::count_done() {
  const auto is_done = [&](std::uint64_t batch) {
    return batch / replicas_ < shares_[batch % replicas_].done;
  };
  for (; counted_ < count_ && is_done(counted_); ++counted_)
    count(metrics_[counted_], first_step_ + counted_);
}

// -- synchronous steps --------------------------------------------------------

void server_epoch::train_synchronously() {
  const auto& servers = *network_->values().state()->servers;
  const auto steps = std::make_shared<synchronous_steps>(options_of_steps());
  const training_chief chief{
    servers, chief_of(steps),
    [steps](const job_error& e) { steps->fail(std::make_exception_ptr(e)); }};
  std::vector<result> replicas;
  for (std::uint32_t r = 0; r < replicas_; ++r)
    replicas.push_back(schedule_synchronous(r, steps));
  wait_for_decisions(*steps, replicas);
  if (steps_ < count_) // the replicas wait for a decision
    end_training(servers.options().timeout);
  wait_for_all(replicas);
  steps->list_missing();
  count(steps->wait(0ms));
}

/// What it returns can outlive this object, because the chief can end later.
synchronous_steps::options server_epoch::options_of_steps() const {
  synchronous_steps::options out;
  out.replicas = replicas_;
  out.has_table_consistency = table_consistency_.has_value();
  for (std::uint64_t step = 0; step < count_; ++step)
    out.learning_rates.push_back(learning_rate(first_step_ + step));
  out.on_not_finite = [stops = options_.on_nan == on_nan::stop,
                       first = first_step_](std::uint64_t step) {
    if (stops)
      throw std::runtime_error(not_finite_text(first + step) + try_this);
  };
  return out;
}

lead_training
server_epoch::chief_of(const std::shared_ptr<synchronous_steps>& steps) const {
  lead_training out{.training = training_,
                    .replicas = replicas_,
                    .backup_workers = options_.consistency.backup_workers};
  out.factors = [steps](std::uint64_t step,
                        const std::vector<std::uint32_t>& contributors) {
    try {
      return steps->decide(step, contributors);
    } catch (...) {
      steps->fail(std::current_exception());
      throw;
    }
  };
  out.on_decided = [steps](std::uint64_t count) { steps->on_decided(count); };
  return out;
}

server_epoch::result server_epoch::schedule_synchronous(
  std::uint32_t replica,
  const std::shared_ptr<synchronous_steps>& steps) const {
  const auto router = network_->values().state()->servers->router();
  const auto sums = batches_->metrics.sum_count();
  const auto on_report = [=, training = training_,
                          count = count_](const tensors& what) {
    try {
      auto report = decode_replica_report(what, sums);
      const auto next = report.step + 1;
      if (next > count)
        throw std::invalid_argument("a worker has made a step too many");
      steps->on_report(replica, std::move(report));
      tell_chief(router, training, replica, next);
    } catch (...) {
      steps->fail(std::current_exception());
    }
  };
  return schedule(task_of(replica, 0, count_),
                  {.on_report = on_report, .waits_for_others = true});
}

/// Waits until all steps are decided. If the fit is told to stop, no further
/// step is decided, and it waits for those that are.
void server_epoch::wait_for_decisions(synchronous_steps& steps,
                                      const std::vector<result>& replicas) {
  const auto timeout = network_->values().state()->servers->options().timeout;
  bool is_closed = false;
  std::optional<std::chrono::steady_clock::time_point> ended;
  while (steps_ < count_) {
    if (is_stopped() && !std::exchange(is_closed, true))
      steps.close();
    const bool is_last = is_closed && steps.is_complete();
    const auto before = steps_;
    count(steps.wait(is_last ? 0ms : stop_interval));
    if (is_last)
      return;
    if (!wait_for_some(replicas, replicas.size(), 0ms))
      continue;
    const auto now = std::chrono::steady_clock::now();
    if (!ended || steps_ > before)
      ended = now;
    if (now - *ended > timeout)
      throw job_error{ec::superseded,
                      "the replicas have ended before their last "
                      "step: another training has begun on the "
                      "servers"};
  }
}

void server_epoch::count(const synchronous_steps::news& x) {
  for (const auto& total : x.decided)
    count(total, first_step_ + steps_++);
  for (const auto& one : x.dropped) {
    const auto step = first_step_ + one.step;
    const auto subject = "replica " + std::to_string(one.replica) + " in step "
                         + std::to_string(step);
    const bool is_finite =
      one.metrics && one.metrics->sums[metric_list::skipped] == 0;
    if (one.metrics && !is_finite)
      report_not_finite("the loss or gradient of " + subject + " is not finite",
                        "it changed no table");
    if (options_.on_dropped)
      options_.on_dropped(
        {step, one.replica, one.examples, is_finite && one.examples > 0});
  }
}

// -- closures -----------------------------------------------------------------

void server_epoch::begin_training() {
  const auto& variables = network_->variables();
  std::vector<consistency> rules(variables.size(), options_.consistency);
  if (table_consistency_)
    std::fill(rules.begin() + 1, rules.end(), *table_consistency_);
  training_ = network_->values().state()->servers->begin_training(
    *network_->training(), rules, replicas_, network_->optimizer().number());
}

void server_epoch::end_training(std::chrono::milliseconds timeout) const {
  network_->values().state()->servers->end_training(
    network_->optimizer().number(), timeout);
}

train_task server_epoch::task_of(std::uint32_t replica, std::uint64_t begin,
                                 std::uint64_t end) const {
  train_task out{.training = training_,
                 .replica = replica,
                 .replicas = replicas_,
                 .first = begin,
                 .last = end,
                 .is_synchronous =
                   options_.consistency.kind == consistency_kind::synchronous,
                 .has_table_consistency = table_consistency_.has_value(),
                 .epoch = first_.epoch,
                 .index = first_.index,
                 .batches = size_,
                 .model_step = first_step_};
  out.throws_on_nan = !out.is_synchronous && options_.on_nan == on_nan::stop;
  if (!out.is_synchronous || out.has_table_consistency)
    for (auto step = begin; step < end; ++step)
      out.learning_rates.push_back(
        learning_rate(first_step_ + out.batch_of(step)));
  return out;
}

server_epoch::result server_epoch::schedule(train_task what,
                                            closure_options options) const {
  if (coordinator_.has_nodes()) {
    what.description = batches_->description_of_fit(*network_);
    return coordinator_.schedule_named(replica_closure, encode(what),
                                       std::move(options));
  }
  return coordinator_.schedule_with(
    std::move(options),
    [network = network_, batches = batches_, what](closure_context& self) {
      return encode(replica_steps{*network, *batches, what, self}.run(),
                    batches->metrics.sum_count());
    });
}

server_epoch::result server_epoch::schedule(score_task what) const {
  if (coordinator_.has_nodes()) {
    what.description = batches_->description_of_evaluation(*network_);
    return coordinator_.schedule_named(score_closure, encode(what));
  }
  return coordinator_.schedule([network = network_, batches = batches_, what] {
    return encode({network->score(what, *batches)},
                  batches->metrics.sum_count());
  });
}

bool server_epoch::is_stopped() const {
  return options_.stop && *options_.stop;
}

float server_epoch::learning_rate(std::uint64_t step) const {
  return options_.schedule ? options_.schedule->at(step)
                           : network_->optimizer().rule().learning_rate();
}

void server_epoch::report_not_finite(const std::string& text,
                                     const std::string& effect) const {
  if (options_.on_nan == on_nan::stop)
    throw std::runtime_error(text + try_this);
  log(log_level::warning, text + "; " + effect);
}

void server_epoch::count(const step_metrics& report, std::uint64_t step) {
  if (report.sums[metric_list::skipped] != 0)
    return report_not_finite(not_finite_text(step), "its update was skipped");
  totals_.add(report);
  if (staleness_)
    staleness_->add(report);
  if (shown_)
    shown_->step(report.examples, report.sums);
}

/// Waits for some closures.
/// @returns false after the timeout.
/// @errors throws the error if a closure has thrown, or if none can be done.
bool server_epoch::wait_for_some(std::span<const result> some,
                                 std::size_t count,
                                 std::chrono::milliseconds timeout) {
  const bool is_over = coordinator_.wait_for_some(some, count, timeout);
  static_cast<void>(coordinator_.done());
  const bool lacks_worker =
    !is_over && is_stopped() && coordinator_.workers().empty();
  without_worker_ = lacks_worker ? without_worker_ + stop_interval : 0ms;
  if (without_worker_ > worker_timeout)
    throw no_worker_left{};
  return is_over;
}

void server_epoch::wait_for_all(const std::vector<result>& all) {
  while (!wait_for_some(all, all.size(), stop_interval)) {
  }
}

} // namespace troupe
