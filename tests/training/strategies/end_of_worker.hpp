#pragma once

#include <stdexcept>

namespace troupe::test {

/// Ends the thread that stands for a worker.
struct end_of_worker : std::runtime_error {
  end_of_worker() : std::runtime_error{"the test ends this worker"} {}
};

} // namespace troupe::test
