#include "troupe/actors/protocol/group_options.hpp"

#include <stdexcept>

namespace troupe {

void check(const replica_group_options& options) {
  const auto reject = [](const std::string& what, const std::string& why) {
    throw std::invalid_argument(what + " for a replica group: " + why);
  };
  if (options.replicas < 1 || options.replicas > max_replicas)
    reject(std::to_string(options.replicas) + " replicas",
           "give 1 to " + std::to_string(max_replicas));
  if (options.threads < 1)
    reject(std::to_string(options.threads) + " threads",
           "give 1 or more for each replica");
  if (options.step_timeout <= std::chrono::milliseconds{0})
    reject("a step timeout of " + std::to_string(options.step_timeout.count())
             + " ms",
           "give 1 ms or more");
}

void prepare(context& target, const replica_group_options& options,
             std::uint32_t replica, std::uint64_t step) {
  target.recording = nullptr;
  target.copy_index = replica;
  target.random = {options.seed, replica, step, 0};
}

void prepare(step_context& target, const replica_group_options& options,
             std::uint32_t replica, std::uint64_t step,
             std::uint64_t generation) {
  target.replica = replica;
  target.replicas = options.replicas;
  target.step = step;
  target.generation = generation;
  target.report.reset(0);
  target.options = {options.algorithm};
}

std::uint64_t generation_counter::begin_run(std::uint64_t first_step) {
  if (generation_ == 0 || !completed_ || first_step != next_step_)
    ++generation_;
  next_step_ = first_step;
  completed_ = false;
  return generation_;
}

void generation_counter::complete_run(std::uint64_t next_step) {
  next_step_ = next_step;
  completed_ = true;
}

} // namespace troupe
