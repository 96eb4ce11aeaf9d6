#pragma once

#include "troupe/data/pipeline/dataset.hpp"

#include <cstdint>
#include <stdexcept>

namespace troupe {

/// Thrown by `worker_dataset::next` after the last element.
struct end_of_dataset : std::out_of_range {
  end_of_dataset() : std::out_of_range{"the dataset of the worker has ended"} {}
};

/// The position of a worker in its dataset. A closure reads elements from it.
/// They count only if the closure counts: if it is stopped or throws, another
/// one reads them again.
class worker_dataset {
public:
  explicit worker_dataset(const data::dataset& elements)
    : cursor_{elements.iterate()} {}

  /// Returns the next element.
  /// @errors throws `end_of_dataset` after the last element, and
  ///         std::logic_error outside of closures. Rethrows errors of reading.
  batch next();

private:
  data::cursor cursor_;
  /// Position at the begin of the closure that reads. Nullopt: none does.
  std::optional<data::position> before_;
};

} // namespace troupe
