#include "troupe/training/parameter_server/staleness_warning.hpp"

#include "troupe/actors/core/log.hpp"
#include "troupe/training/loop/options/metric_list.hpp"

#include <array>
#include <charconv>
#include <string>
#include <utility>

namespace troupe {

namespace {

/// A loss of at least this part of the first one has not fallen.
constexpr double not_fallen = 0.98;

std::string rounded(double x) {
  std::array<char, 32> text;
  const auto end =
    std::to_chars(text.begin(), text.end(), x, std::chars_format::general, 3);
  return {text.begin(), end.ptr};
}

} // namespace

staleness_warning::staleness_warning(
  std::function<parameter_server::gradient_staleness()> measure)
  : measure_{std::move(measure)} {
  if (measure_)
    before_ = measure_();
}

void staleness_warning::add(const step_metrics& step) {
  if (!measure_)
    return;
  const loss one{step.sums[metric_list::loss_sum],
                 static_cast<double>(step.examples)};
  if (first_.size() < steps) {
    first_.push_back(one);
    return;
  }
  last_.push_back(one);
  if (last_.size() > steps)
    last_.pop_front();
}

double staleness_warning::mean(const std::deque<loss>& of) {
  loss sum{};
  for (const auto& [losses, examples] : of)
    sum = {sum.first + losses, sum.second + examples};
  return sum.first / sum.second;
}

void staleness_warning::warn(std::uint64_t all_steps) {
  if (!measure_ || last_.size() < steps
      || !(mean(last_) >= not_fallen * mean(first_)))
    return;
  auto found = std::exchange(measure_, nullptr)();
  if (found.gradients >= before_.gradients) { // else a server began again
    found.gradients -= before_.gradients;
    found.sum -= before_.sum;
  }
  if (found.sum == 0)
    return;
  const auto count = std::to_string(steps);
  log(
    log_level::warning,
    "the loss has not fallen: it was " + rounded(mean(first_))
      + " in the first " + count + " steps, and " + rounded(mean(last_))
      + " in the " + count + " steps up to step "
      + std::to_string(all_steps - 1)
      + ". Between the read of a replica and its update, others have made "
      + rounded(found.mean())
      + " updates on average. If the loss falls with synchronous consistency, "
        "use that, bounded consistency or a smaller learning rate (in the "
        "tool --consistency sync or ssp:1, or --learning-rate)");
}

} // namespace troupe
