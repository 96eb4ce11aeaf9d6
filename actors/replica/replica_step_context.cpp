#include "troupe/actors/replica/replica_step_context.hpp"

#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

[[noreturn]] void refuse_update(std::uint32_t bucket) {
  throw std::logic_error("the update began before the sum of bucket "
                         + std::to_string(bucket) + " was complete");
}

} // namespace

std::optional<caf::actor_clock::time_point> replica_step::deadline() const {
  if (said.timeout == 0)
    return std::nullopt;
  return of_.self->clock().now() + std::chrono::milliseconds{said.timeout};
}

/// Fails the step if the deadline has passed.
/// @returns whether it has passed.
bool replica_step::is_over(std::optional<caf::actor_clock::time_point> till) {
  if (!till || of_.self->clock().now() < *till)
    return false;
  of_.fail_of_time(std::chrono::milliseconds{said.timeout});
  return true;
}

void replica_step::ring_at(caf::actor_clock::time_point then) {
  of_.self->delayed_send(of_.self, then - of_.self->clock().now(),
                         atom::wake_v);
}

/// Waits until `ready()` holds. Meanwhile reads the tensor queue and reduces;
/// if there is nothing to do, polls for at most `spin_timeout` and then parks.
template <class Ready>
void replica_step::wait(commit::doing what, std::uint32_t bucket, Ready ready) {
  of_.doing = what;
  of_.waits_for = bucket;
  const auto poll = of_.options.polling > std::chrono::microseconds{0};
  const auto last = deadline();
  bool alarmed = false;
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
    if (is_over(last))
      throw superseded{};
    if (last && !std::exchange(alarmed, true))
      ring_at(*last);
    if (of_.by->port_of(of_.id).park())
      fiber::park();
    till = {};
  }
  of_.doing = commit::doing::computing;
}

/// Parks so that the replica reads its mailbox. A backend that does not block
/// wakes the replica itself; else the replica sends itself a message.
void replica_step::look_at_mail() {
  if (of_.plane->sleeps() && !std::exchange(of_.woken, true))
    of_.self->send(of_.self, atom::wake_v);
  fiber::park();
}

/// Waits until a condition of the backend holds. Between the waits of the
/// backend the replica reads its mailbox.
void replica_step::await(commit::doing what, const data_plane::wish& x) {
  using news = data_plane::news;
  of_.settling = x.what == data_plane::wish::kind::settled;
  of_.doing = what;
  of_.waits_for = x.bucket;
  const auto last = deadline();
  bool alarmed = false;
  for (;;) {
    if (of_.abandoned())
      throw superseded{};
    const auto it = of_.plane->wait(of_.id, x, true);
    if (it == news::granted)
      break;
    if (it == news::troubled) {
      of_.fail_of_peer(*of_.plane->troubled());
      throw superseded{};
    }
    if (is_over(last))
      throw superseded{};
    if (last && !of_.plane->sleeps() && !std::exchange(alarmed, true))
      ring_at(*last);
    look_at_mail();
  }
  of_.doing = commit::doing::computing;
}

void replica_step::contribute(std::uint32_t bucket, const tensor& part) {
  if (of_.plane)
    return of_.plane->contribute(of_.id, bucket, part, said);
  of_.send_part(bucket, part, said);
  of_.drain();
}

void replica_step::give(std::uint32_t bucket, const tensor& part) {
  if (!of_.plane)
    return contribute(bucket, part);
  of_.plane->contribute(of_.id, bucket, part, said, exchange::room::of_part);
}

tensor replica_step::sum(std::uint32_t bucket) {
  if (of_.plane) {
    of_.plane->sum_of(of_.id,
                      bucket); // throws if there was no contribution
    tensor total;
    while (!total) { // another replica may leave the step after the wait
      await(commit::doing::sum, {data_plane::wish::kind::sum, bucket});
      total = of_.plane->sum_of(of_.id, bucket);
    }
    return total;
  }
  of_.mine->sum_of(bucket); // throws if there was no contribution
  wait(commit::doing::sum, bucket,
       [&] { return static_cast<bool>(of_.mine->sum_of(bucket)); });
  return of_.mine->sum_of(bucket);
}

tensors replica_step::gather(std::uint32_t bucket, const tensor& part) {
  if (of_.plane) {
    of_.plane->gather(of_.id, bucket, part, said);
    tensors all;
    while (all.empty()) { // another replica may leave the step after the wait
      await(commit::doing::gather, {data_plane::wish::kind::gather, bucket});
      all = of_.plane->gathered(of_.id, bucket);
    }
    return all;
  }
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
  if (of_.plane) {
    using wish = data_plane::wish;
    const wish whole{wish::kind::complete, 0};
    if (of_.plane->wait(of_.id, whole, false) == data_plane::news::waiting
        && of_.plane->current(of_.id))
      refuse_update(of_.plane->incomplete(of_.id));
    await(commit::doing::sum, whole); // throws if the step is abandoned
    settle(); // peers need their packets, because this step is not undone
  } else if (!of_.mine->settled()) {
    refuse_update(of_.mine->unsettled());
  }
  of_.updating = true;
}

void replica_step::settle() {
  if (of_.plane)
    return await(commit::doing::sum, {data_plane::wish::kind::settled,
                                      of_.plane->incomplete(of_.id)});
  while (!of_.mine->settled()) {
    const auto bucket = of_.mine->unsettled();
    wait(commit::doing::sum, bucket,
         [&] { return static_cast<bool>(of_.mine->sum_of(bucket)); });
  }
}

} // namespace troupe
