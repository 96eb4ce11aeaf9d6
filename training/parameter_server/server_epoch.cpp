#include "troupe/training/parameter_server/server_epoch.hpp"

#include "troupe/actors/core/log.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

namespace {

using parameter_server::consistency_kind;

constexpr auto try_this = " (try a smaller learning rate, or on_nan skip, in "
                          "the tool --on-nan skip)";
/// Steps of each replica that are scheduled and not done. A fit that is told to
/// stop waits for them.
constexpr std::uint64_t max_open_steps = 16;
/// How often a wait looks at the flag that ends a fit.
constexpr std::chrono::milliseconds stop_interval{100};
/// Time for which a fit that was told to stop waits for a worker.
constexpr std::chrono::seconds worker_timeout{5};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
    .count();
}

} // namespace

server_epoch::server_epoch(cluster_coordinator& coordinator,
                           std::shared_ptr<const server_network> network,
                           std::shared_ptr<const server_batches> batches,
                           const server_fit_options& options,
                           const data::position& first,
                           std::uint64_t first_step, progress* shown)
  : coordinator_{coordinator},
    network_{std::move(network)},
    batches_{std::move(batches)},
    options_{options},
    table_rule_{options.table_consistency},
    first_{first},
    first_step_{first_step},
    shown_{shown},
    counted_{first.index} {}

epoch_totals server_epoch::train(std::uint32_t replicas,
                                 std::uint64_t max_steps, epoch_totals totals) {
  totals_ = std::move(totals);
  size_ = batches_->training->size().value();
  end_ =
    first_.index + std::min(max_steps, size_ - std::min(size_, first_.index));
  results_.resize(size_);
  const auto begin = std::chrono::steady_clock::now();
  switch (options_.consistency.kind) {
    case consistency_kind::asynchronous:
      train_asynchronously(replicas);
      break;
    case consistency_kind::bounded:
      train_with_bound(replicas);
      break;
    case consistency_kind::synchronous:
      train_synchronously(replicas);
      break;
  }
  coordinator_.join();
  list_late_results();
  totals_.seconds += seconds_since(begin);
  return totals_;
}

epoch_totals server_epoch::score() {
  size_ = batches_->validation->size().value();
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < size_; ++i)
    results_.emplace_back(schedule(task(batch_task::kind::score, i)));
  count_all_results();
  totals_.seconds = seconds_since(begin);
  return totals_;
}

void server_epoch::train_asynchronously(std::uint32_t replicas) {
  const auto max_open = max_open_steps * replicas;
  for (auto i = first_.index; i < end_ && !is_stopped(); ++i) {
    schedule_step(i);
    for (count_results(); i + 1 - counted_ >= max_open; count_results())
      wait_for_some({&*results_[counted_], 1}, 1);
  }
  count_all_results();
}

/// Batch c R + r is step c of replica r. A replica waits for its step before,
/// and for all steps of all replicas that its next step must see.
void server_epoch::train_with_bound(std::uint32_t replicas) {
  const std::uint64_t staleness = options_.consistency.max_staleness;
  std::vector<std::uint64_t> next(replicas); // batch of each replica
  std::iota(next.begin(), next.end(), first_.index);
  const auto may_begin = [&](std::uint64_t i) {
    const auto clock = i / replicas;
    return i < end_ && (i < replicas || is_over(i - replicas))
           && (clock <= staleness
               || counted_ >= (clock - staleness) * replicas);
  };
  auto begun = first_.index; // the last batch that has begun is before it
  while (first_.index + steps_ < end_) {
    // A fit can be continued only if no batch is left out.
    if (is_stopped())
      end_ = begun;
    count_results();
    bool has_begun = false;
    for (auto& i : next)
      if (may_begin(i)) {
        schedule_step(i);
        begun = std::max(begun, i + 1);
        i += replicas;
        has_begun = true;
      }
    std::vector<result> open;
    for (const auto i : next)
      if (i >= replicas && !is_over(i - replicas))
        open.push_back(*results_[i - replicas]);
    if (!has_begun && !open.empty())
      wait_for_some(open, 1);
  }
  count_all_results();
}

void server_epoch::train_synchronously(std::uint32_t replicas) {
  const auto required = replicas - options_.consistency.backup_workers;
  const auto kind = table_rule_ ? batch_task::kind::contribute_dense
                                : batch_task::kind::contribute;
  // The others, tables, get their updates from the closures.
  const auto variables = std::span{network_->variables()}.first(
    table_rule_ ? 1 : network_->variables().size());
  for (auto i = first_.index; i < end_ && !is_stopped(); ++i) {
    auto next = task(kind, i);
    next.replicas = replicas;
    next.learning_rate = learning_rate(next.step);
    std::vector<result> parts;
    for (next.replica = 0; next.replica < replicas; ++next.replica)
      parts.push_back(schedule(next));
    wait_for_some(parts, required);
    std::vector<std::uint32_t> contributors;
    std::vector<step_metrics> metrics;
    for (std::uint32_t r = 0; r < replicas; ++r) {
      if (parts[r].status() == remote_value_status::ready
          && contributors.size() < required) {
        contributors.push_back(r);
        metrics.push_back(metrics_of(parts[r]));
      } else {
        late_.push_back({next.step, r, parts[r]});
      }
    }
    if (contributors.size() < required) { // others were cancelled
      coordinator_.join();                // throws the error
      throw closure_cancelled{};
    }
    step_metrics total;
    sum_metrics(metrics, total);
    const bool is_finite = total.sums[metric_list::skipped] == 0;
    if (!is_finite) // each replica skips the step
      total.sums[metric_list::skipped] = static_cast<double>(replicas);
    count(total, next.step);
    ++steps_; // also if the answer of a server is lost
    if (!is_finite || total.examples == 0)
      contributors.clear();
    for (const auto& one : variables)
      network_->optimizer().apply_contributions(
        one, next.step, contributors,
        {.learning_rate = next.learning_rate,
         .scale =
           total.examples > 0 ? 1 / static_cast<float>(total.examples) : 1});
    list_late_results();
    wait_for_tables(next.step + 1);
  }
}

/// Waits until the tables have all updates that a synchronous step must see:
/// those of all replicas, also of late ones, in the steps that are more than
/// `max_staleness` before it.
void server_epoch::wait_for_tables(std::uint64_t step) {
  if (!table_rule_ || table_rule_->kind != consistency_kind::bounded)
    return;
  std::vector<result> late_updates;
  for (const auto& one : late_)
    if (one.step + table_rule_->max_staleness < step)
      late_updates.push_back(one.metrics);
  if (late_updates.empty())
    return;
  wait_for_some(late_updates, late_updates.size());
  list_late_results();
}

batch_task server_epoch::task(batch_task::kind what,
                              std::uint64_t index) const {
  return {.what = what,
          .epoch = what == batch_task::kind::score ? 0 : first_.epoch,
          .index = index,
          .batches = size_,
          .step = step_of(index)};
}

server_epoch::result server_epoch::schedule(const batch_task& what) const {
  if (coordinator_.has_nodes()) {
    auto task = what;
    task.description = batches_->description(*network_, what.what);
    return coordinator_.schedule_named(batch_closure, encode(task));
  }
  return coordinator_.schedule([network = network_, batches = batches_, what] {
    return encode(network->run(what, *batches));
  });
}

step_metrics server_epoch::metrics_of(const result& from) const {
  return decode_step_metrics(from.get(), batches_->metrics.sum_count());
}

bool server_epoch::is_stopped() const {
  return options_.stop && *options_.stop;
}

std::uint64_t server_epoch::step_of(std::uint64_t index) const {
  return first_step_ + index - first_.index;
}

float server_epoch::learning_rate(std::uint64_t step) const {
  return options_.schedule ? options_.schedule->at(step)
                           : network_->optimizer().rule().learning_rate();
}

bool server_epoch::check_finite(const step_metrics& report,
                                std::uint64_t step) const {
  if (report.sums[metric_list::skipped] == 0)
    return true;
  report_not_finite("step " + std::to_string(step), "its update was skipped");
  return false;
}

bool server_epoch::check_finite_late(const step_metrics& report,
                                     const late_result& late) const {
  if (report.sums[metric_list::skipped] == 0)
    return true;
  report_not_finite("replica " + std::to_string(late.replica) + " in step "
                      + std::to_string(late.step),
                    "it changed no table");
  return false;
}

void server_epoch::report_not_finite(const std::string& subject,
                                     const std::string& effect) const {
  const auto text = "the loss or gradient of " + subject + " is not finite";
  if (options_.on_nan == on_nan::stop)
    throw std::runtime_error(text + try_this);
  log(log_level::warning, text + "; " + effect);
}

void server_epoch::count(const step_metrics& report, std::uint64_t step) {
  if (!check_finite(report, step))
    return;
  totals_.add(report);
  if (shown_)
    shown_->step(report.examples, report.sums);
}

void server_epoch::schedule_step(std::uint64_t index) {
  auto next = task(batch_task::kind::train, index);
  next.learning_rate = learning_rate(next.step);
  next.throws_on_nan = options_.on_nan == on_nan::stop;
  results_[index] = schedule(next);
  ++steps_;
}

/// @errors throws the error if a closure has thrown or none can be done.
void server_epoch::wait_for_some(std::span<const result> some,
                                 std::size_t count) const {
  std::chrono::milliseconds without_worker{0};
  while (!coordinator_.wait_for_some(some, count, stop_interval)) {
    static_cast<void>(coordinator_.done());
    const bool lacks_worker = is_stopped() && coordinator_.workers().empty();
    without_worker = lacks_worker ? without_worker + stop_interval
                                  : decltype(without_worker){};
    if (without_worker > worker_timeout)
      throw no_worker_left{};
  }
  static_cast<void>(coordinator_.done());
}

bool server_epoch::is_over(std::uint64_t index) const {
  const auto& found = results_[index];
  return index < first_.index
         || (found && found->status() != remote_value_status::not_ready);
}

void server_epoch::count_results() {
  for (; counted_ < size_ && is_over(counted_); ++counted_) {
    // A closure is cancelled before the error of another one is known.
    if (results_[counted_]->status() == remote_value_status::aborted)
      coordinator_.join(); // throws it
    count(metrics_of(*results_[counted_]), step_of(counted_));
  }
}

void server_epoch::count_all_results() {
  // One after the other, so that the progress is shown.
  for (count_results(); counted_ < size_ && results_[counted_]; count_results())
    wait_for_some({&*results_[counted_], 1}, 1);
  coordinator_.join();
}

/// Lists the late contributions that have arrived. Their updates of tables
/// count, so they must be finite too.
void server_epoch::list_late_results() {
  std::erase_if(late_, [&](const late_result& x) {
    if (x.metrics.status() != remote_value_status::ready)
      return false;
    const auto metrics = metrics_of(x.metrics);
    const bool has_updated_tables =
      table_rule_ && check_finite_late(metrics, x) && metrics.examples > 0;
    if (options_.on_dropped)
      options_.on_dropped(
        {x.step, x.replica, metrics.examples, has_updated_tables});
    return true;
  });
}

} // namespace troupe
