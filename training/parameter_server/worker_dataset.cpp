#include "troupe/training/parameter_server/worker_dataset.hpp"

#include <optional>
#include <utility>

namespace troupe {

/// Finds what the execution has read.
worker_dataset::reading&
worker_dataset::reading_of(closure_environment& running) {
  for (auto& one : readings_)
    if (one.counted_attempt == running.counted_attempt()
        && one.attempt == running.execution.attempt)
      return one;
  auto& one = readings_.emplace_back(reading{
    running.counted_attempt(), running.execution.attempt, running.worker_id});
  running.at_failure([failed = one.has_failed] { *failed = true; });
  return one;
}

/// Returns the elements of executions that do not count, and forgets those that
/// count. When a worker with another id reads, the coordinator has seen all
/// that the one before has sent.
void worker_dataset::return_what_does_not_count(
  const closure_environment& running) {
  std::erase_if(readings_, [&](reading& one) {
    if (*one.counted_attempt == one.attempt)
      return true;
    if (!*one.has_failed && one.worker_id == running.worker_id)
      return false; // it is not decided
    for (auto& element : one.elements)
      again_.push_back(std::move(element));
    return true;
  });
}

batch worker_dataset::next() {
  auto* const closure = current_closure();
  if (!closure)
    throw std::logic_error("the dataset of a worker is read outside of a "
                           "closure");
  return_what_does_not_count(*closure);
  std::optional<batch> found;
  if (!again_.empty()) {
    found = std::move(again_.front());
    again_.pop_front();
  } else {
    found = cursor_.next();
  }
  if (!found)
    throw end_of_dataset{};
  reading_of(*closure).elements.push_back(*found);
  return *std::move(found);
}

} // namespace troupe
