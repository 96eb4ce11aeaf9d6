#include "troupe/actors/replica_step.hpp"

#include <stdexcept>

namespace troupe {

namespace {

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

} // namespace

/// Until `ready`: takes letters, adds, polls for a bounded time, parks.
template <class Ready>
void replica_step::wait(commit::doing what, std::uint32_t bucket, Ready ready) {
  of_.doing = what;
  of_.waits_for = bucket;
  const auto poll = of_.options.polling > std::chrono::microseconds{0};
  caf::actor_clock::time_point till{};
  for (;;) {
    of_.drain();
    if (of_.abandoned())
      throw superseded{};
    if (ready())
      break;
    if (of_.add_some(bucket))
      continue;
    if (poll) {
      const auto now = of_.self->clock().now();
      if (till == caf::actor_clock::time_point{})
        till = now + of_.options.polling;
      if (now < till) {
        relax();
        continue;
      }
    }
    if (of_.by->port_of(of_.id).park())
      fiber::park();
    till = {};
  }
  of_.doing = commit::doing::computing;
}

void replica_step::contribute(std::uint32_t bucket, const tensor& part) {
  of_.send_part(bucket, part);
  of_.drain();
}

tensor replica_step::sum(std::uint32_t bucket) {
  of_.mine->sum_of(bucket); // refuses one that was not contributed to
  wait(commit::doing::sum, bucket,
       [&] { return static_cast<bool>(of_.mine->sum_of(bucket)); });
  return of_.mine->sum_of(bucket);
}

tensors replica_step::gather(std::uint32_t bucket, const tensor& part) {
  of_.send_share(bucket, part);
  const tensors* all = nullptr;
  wait(commit::doing::gather, bucket, [&] {
    all = of_.mine->gathered(bucket);
    return all != nullptr;
  });
  return *all;
}

void replica_step::begin_update() {
  of_.drain();
  if (of_.abandoned())
    throw superseded{};
  if (!of_.mine->settled())
    throw std::logic_error("the update began before the sum of bucket "
                           + std::to_string(of_.mine->unsettled()) + " was in");
  of_.updating = true;
}

void replica_step::settle() {
  while (!of_.mine->settled()) {
    const auto bucket = of_.mine->unsettled();
    wait(commit::doing::sum, bucket,
         [&] { return static_cast<bool>(of_.mine->sum_of(bucket)); });
  }
}

} // namespace troupe
