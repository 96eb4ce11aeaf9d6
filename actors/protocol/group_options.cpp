#include "troupe/actors/protocol/group_options.hpp"

#include <stdexcept>

namespace troupe {

void check(const crew_options& x) {
  const auto refuse = [](const std::string& what, const std::string& why) {
    throw std::invalid_argument(what + " for a replica group: " + why);
  };
  if (x.replicas < 1 || x.replicas > most_replicas)
    refuse(std::to_string(x.replicas) + " replicas",
           "give 1 to " + std::to_string(most_replicas));
  if (x.threads < 1)
    refuse(std::to_string(x.threads) + " threads",
           "give 1 or more for each replica");
  if (x.patience <= std::chrono::milliseconds{0})
    refuse("a step timeout of " + std::to_string(x.patience.count()) + " ms",
           "give 1 ms or more");
}

void prepare(context& in, const crew_options& options, std::uint32_t replica,
             std::uint64_t step) {
  in.recording = nullptr;
  in.replica = replica;
  in.random = {options.seed, replica, step, 0};
}

void prepare(step_context& at, const crew_options& options,
             std::uint32_t replica, std::uint64_t step, std::uint64_t epoch) {
  at.replica = replica;
  at.replicas = options.replicas;
  at.step = step;
  at.epoch = epoch;
  at.report = {};
  at.said = {options.way};
}

std::uint64_t epoch_count::of_run(std::uint64_t first_step) {
  if (epoch_ == 0 || !clean_ || first_step != next_)
    ++epoch_;
  next_ = first_step;
  clean_ = false;
  return epoch_;
}

void epoch_count::ended(std::uint64_t next_step) {
  next_ = next_step;
  clean_ = true;
}

} // namespace troupe
