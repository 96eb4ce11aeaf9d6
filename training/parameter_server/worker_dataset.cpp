#include "troupe/training/parameter_server/worker_dataset.hpp"

#include "troupe/actors/protocol/closure.hpp"

#include <utility>

namespace troupe {

batch worker_dataset::next() {
  auto* const closure = current_closure();
  if (!closure)
    throw std::logic_error("the dataset of a worker is read outside of a "
                           "closure");
  if (!before_) {
    before_ = cursor_.save();
    closure->at_end([this](bool counts) {
      if (!counts)
        cursor_.restore(*before_);
      before_.reset();
    });
  }
  auto found = cursor_.next();
  if (!found)
    throw end_of_dataset{};
  return *std::move(found);
}

} // namespace troupe
