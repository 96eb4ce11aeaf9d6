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
  // Such a step was counted, and no report of it is waited for.
  if (number < counted_ && !steps_.contains(number))
    return;
  auto& one = steps_[number];
  const bool is_repeated =
    !one.reports.insert_or_assign(replica, std::move(report)).second;
  const auto& counts = one.contributors;
  if (is_repeated || !counts || !rules_.has_own_tables
      || std::ranges::binary_search(*counts, replica))
    return;
  add_dropped(number, one, replica);
  if (number < counted_ && one.reports.size() == rules_.replicas)
    steps_.erase(number);
  changed_.notify_all();
}

void synchronous_steps::add_dropped(std::uint64_t number, const step& of,
                                    std::uint32_t replica) {
  const auto rows = of.reports.begin()->second.rows;
  const auto found = of.reports.find(replica);
  dropped one{number, replica,
              static_cast<std::uint64_t>(
                shard_of(rows, replica, rules_.replicas).size())};
  if (found != of.reports.end())
    one.metrics = found->second.metrics;
  dropped_.push_back(std::move(one));
}

parameter_server::update_factors
synchronous_steps::decide(std::uint64_t number,
                          const std::vector<std::uint32_t>& contributors) {
  const std::lock_guard hold{lock_};
  decided_ = std::max(decided_, number); // the chief decides it after those
  changed_.notify_all();
  if (is_closed_)
    throw std::runtime_error("no further step is decided");
  auto& one = steps_[number];
  std::vector<step_metrics> metrics;
  for (const auto replica : contributors)
    metrics.push_back(one.reports.at(replica).metrics);
  sum_metrics(metrics, one.total);
  auto& skipped = one.total.sums[metric_list::skipped];
  const bool is_finite = skipped == 0;
  if (!is_finite) {
    rules_.on_not_finite(number);
    skipped = static_cast<double>(rules_.replicas); // each skips the step
  }
  one.contributors = contributors;
  made_ = number + 1;
  drop_others(number, one);
  const auto examples = one.total.examples;
  return {.has_learning_rate = true,
          .learning_rate = rules_.learning_rate(number),
          .scale = examples > 0 ? 1 / static_cast<float>(examples) : 1,
          .is_skipped = !is_finite || examples == 0};
}

/// Drops the contributions of the replicas that are not named. Those that
/// update tables are waited for.
void synchronous_steps::drop_others(std::uint64_t number, step& of) {
  for (std::uint32_t replica = 0; replica < rules_.replicas; ++replica)
    if (!std::ranges::binary_search(*of.contributors, replica)
        && (!rules_.has_own_tables || of.reports.contains(replica)))
      add_dropped(number, of, replica);
}

void synchronous_steps::on_decided(std::uint64_t steps) {
  const std::lock_guard hold{lock_};
  decided_ = std::max(decided_, steps);
  changed_.notify_all();
}

void synchronous_steps::fail(std::exception_ptr why) {
  const std::lock_guard hold{lock_};
  if (!is_closed_ && !error_)
    error_ = std::move(why);
  changed_.notify_all();
}

void synchronous_steps::close() {
  const std::lock_guard hold{lock_};
  is_closed_ = true;
}

bool synchronous_steps::is_quiet() const {
  const std::lock_guard hold{lock_};
  return decided_ == made_;
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
    if (!rules_.has_own_tables
        || found->second.reports.size() == rules_.replicas)
      steps_.erase(found);
  }
  return out;
}

} // namespace troupe
