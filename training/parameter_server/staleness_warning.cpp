#include "troupe/training/parameter_server/staleness_warning.hpp"

#include "troupe/actors/core/log.hpp"

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

void staleness_warning::warn(double first_loss, const epoch_record& epoch) {
  if (!measure_ || !(epoch.loss >= not_fallen * first_loss))
    return;
  auto found = std::exchange(measure_, nullptr)();
  if (found.gradients >= before_.gradients) { // else a server began again
    found.gradients -= before_.gradients;
    found.sum -= before_.sum;
  }
  if (found.sum == 0)
    return;
  log(
    log_level::warning,
    "the loss has not fallen: it was " + rounded(first_loss) + " in the first "
      + std::to_string(first_steps) + " steps, and " + rounded(epoch.loss)
      + " in epoch " + std::to_string(epoch.epoch)
      + ". Between the read of a replica and its update, others have made "
      + rounded(found.mean()) + " updates on average (at most "
      + std::to_string(found.largest)
      + "). If the loss falls with synchronous consistency, use that, bounded "
        "consistency or a smaller learning rate (in the tool --consistency "
        "sync or ssp:1, or --learning-rate)");
}

} // namespace troupe
