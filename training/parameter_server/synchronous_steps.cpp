#include "troupe/training/parameter_server/synchronous_steps.hpp"

#include "troupe/data/pipeline/row_range.hpp"
#include "troupe/training/loop/options/metric_list.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe {

void synchronous_steps::on_report(std::uint32_t replica,
                                  replica_report report) {
  const std::lock_guard hold{lock_};
  const auto number = report.step;
  // The step was counted, and lacks no report.
  if (number < counted_ && !steps_.contains(number))
    return;
  if (options_.has_table_consistency)
    drop_lost(replica, number);
  auto& one = steps_[number];
  one.rows = report.rows;
  const bool is_repeated =
    !one.reports.insert_or_assign(replica, std::move(report.metrics)).second;
  const auto& counts = one.contributors;
  if (is_repeated || !counts || !options_.has_table_consistency
      || std::ranges::binary_search(*counts, replica))
    return;
  add_dropped(number, one, replica);
  if (is_over(number, one))
    steps_.erase(number);
  changed_.notify_all();
}

/// A replica reports in the order of the steps. So a report that has not come
/// before a later one was lost with the worker of the replica.
void synchronous_steps::drop_lost(std::uint32_t replica, std::uint64_t below) {
  for (auto next = steps_.begin();
       next != steps_.end() && next->first < below;) {
    const auto at = next++;
    auto& [number, one] = *at;
    if (!one.contributors || !one.reports.try_emplace(replica).second)
      continue;
    add_dropped(number, one, replica);
    if (is_over(number, one))
      steps_.erase(at);
  }
}

/// True if the step is counted, and lacks no report.
bool synchronous_steps::is_over(std::uint64_t number, const step& of) const {
  return number < counted_
         && (!options_.has_table_consistency
             || of.reports.size() == options_.replicas);
}

void synchronous_steps::add_dropped(std::uint64_t number, const step& of,
                                    std::uint32_t replica) {
  const auto found = of.reports.find(replica);
  const auto examples = shard_of(of.rows, replica, options_.replicas).size();
  dropped_.push_back(
    {number, replica, static_cast<std::uint64_t>(examples),
     found == of.reports.end() ? std::nullopt : found->second});
}

parameter_server::update_factors
synchronous_steps::decide(std::uint64_t number,
                          const std::vector<std::uint32_t>& contributors) {
  const std::lock_guard hold{lock_};
  decided_ = std::max(decided_, number); // the chief decides it after those
  changed_.notify_all();
  if (is_closed_) {
    has_refused_ = true;
    throw std::runtime_error("no further step is decided");
  }
  auto& one = steps_[number];
  std::vector<step_metrics> metrics;
  for (const auto replica : contributors)
    metrics.push_back(one.reports.at(replica).value());
  sum_metrics(metrics, one.total);
  auto& skipped = one.total.sums[metric_list::skipped];
  const bool is_finite = skipped == 0;
  if (!is_finite) {
    options_.on_not_finite(number);
    skipped = static_cast<double>(options_.replicas); // each skips the step
  }
  one.contributors = contributors;
  made_ = number + 1;
  drop_others(number, one);
  const auto examples = one.total.examples;
  return {.has_learning_rate = true,
          .learning_rate = options_.learning_rates.at(number),
          .scale = examples > 0 ? 1 / static_cast<float>(examples) : 1,
          .is_skipped = !is_finite || examples == 0};
}

/// Drops the contributions of the replicas that are not named. Those that
/// update tables are waited for.
void synchronous_steps::drop_others(std::uint64_t number, step& of) {
  for (std::uint32_t replica = 0; replica < options_.replicas; ++replica)
    if (!std::ranges::binary_search(*of.contributors, replica)
        && (!options_.has_table_consistency || of.reports.contains(replica)))
      add_dropped(number, of, replica);
}

void synchronous_steps::on_decided(std::uint64_t steps) {
  const std::lock_guard hold{lock_};
  decided_ = std::max(decided_, steps);
  changed_.notify_all();
}

void synchronous_steps::fail(std::exception_ptr why) {
  const std::lock_guard hold{lock_};
  if (!has_refused_ && !error_)
    error_ = std::move(why);
  changed_.notify_all();
}

void synchronous_steps::close() {
  const std::lock_guard hold{lock_};
  is_closed_ = true;
}

bool synchronous_steps::is_complete() const {
  const std::lock_guard hold{lock_};
  const auto lacks_reports = [this](const auto& x) {
    return x.second.contributors && x.second.reports.size() < options_.replicas;
  };
  return decided_ == made_
         && (!options_.has_table_consistency
             || std::ranges::none_of(steps_, lacks_reports));
}

void synchronous_steps::list_missing() {
  const std::lock_guard hold{lock_};
  for (auto& [number, one] : steps_)
    for (std::uint32_t replica = 0; replica < options_.replicas; ++replica)
      if (options_.has_table_consistency && one.contributors
          && !one.reports.contains(replica))
        add_dropped(number, one, replica);
}

synchronous_steps::news
synchronous_steps::wait(std::chrono::milliseconds timeout) {
  std::unique_lock hold{lock_};
  changed_.wait_for(hold, timeout, [this] { return has_news(); });
  if (error_ && counted_ == decided_ && dropped_.empty())
    std::rethrow_exception(error_);
  news out;
  out.dropped = std::exchange(dropped_, {});
  for (; counted_ < decided_; ++counted_) {
    const auto found = steps_.find(counted_);
    if (found == steps_.end()) // a shard says more than the chief has decided
      throw std::logic_error("a step was decided that no chief has decided");
    out.decided.push_back(std::move(found->second.total));
  }
  std::erase_if(steps_,
                [this](const auto& x) { return is_over(x.first, x.second); });
  return out;
}

} // namespace troupe
