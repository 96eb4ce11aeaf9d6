#include "troupe/actors/collectives/nccl/blocking_calls.hpp"

#include <thread>
#include <utility>

namespace troupe {

void threaded_blocking_calls::post(std::function<void()> call) {
  // The call owns all that it uses, so the thread may outlive the caller.
  std::thread{std::move(call)}.detach();
}

} // namespace troupe
