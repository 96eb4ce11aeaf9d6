#include "troupe/actors/membership/roles/recovery_stop.hpp"

namespace troupe {

void recovery_stop::on_interval(caf::timespan now) {
  auto& table = *options_.peers;
  const bool is_to_stop = table.get([&] {
    const auto& stop = table.stop;
    return stop.recovers && stop.is_to_stop && stop.is_to_stop();
  });
  if (!is_to_stop) {
    wanted_since_.reset();
    return;
  }
  if (!wanted_since_)
    wanted_since_ = now;
  if (now - *wanted_since_ >= options_.stop_delay)
    table.end_runs(
      {.code = ec::cancelled,
       .cause = options_.processes.names[options_.self.task]
                + " was told to stop, and its recovery had not ended within "
                + std::to_string(options_.stop_delay.count()) + " ms"});
}

} // namespace troupe
