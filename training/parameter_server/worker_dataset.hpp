#pragma once

#include "troupe/actors/protocol/closure.hpp"
#include "troupe/data/pipeline/dataset.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <stdexcept>
#include <vector>

namespace troupe {

/// Thrown by `worker_dataset::next` after the last element.
struct end_of_dataset : std::out_of_range {
  end_of_dataset() : std::out_of_range{"the dataset of the worker has ended"} {}
};

/// The position of a worker in its dataset. A closure reads elements from it.
/// They count only if the execution of the closure counts. If it was stopped,
/// has thrown, or its worker was removed, other closures read them again.
class worker_dataset {
public:
  explicit worker_dataset(const data::dataset& elements)
    : cursor_{elements.iterate()} {}

  /// Returns the next element.
  /// @errors throws `end_of_dataset` after the last element, and
  ///         std::logic_error outside of closures. Rethrows errors of reading.
  batch next();

private:
  /// What an execution has read.
  struct reading {
    /// Of the closure. Not the closure, which may own this object.
    shared_attempt counted_attempt;
    std::uint32_t attempt = 0;
    std::uint64_t worker_id = 0;
    std::vector<batch> elements{};
    std::shared_ptr<bool> has_failed = std::make_shared<bool>(false);
  };
  reading& reading_of(closure_environment& running);
  void return_what_does_not_count(const closure_environment& running);

  data::cursor cursor_;
  std::vector<reading> readings_; ///< That may not count.
  std::deque<batch> again_;       ///< To read before the next of `cursor_`.
};

} // namespace troupe
