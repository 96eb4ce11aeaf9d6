#include "troupe/actors/replica/replica.hpp"

#include <variant>

// Sums and gathers among replicas of one process.

namespace troupe {

namespace {

/// Number of elements that are added before the tensor queue is read again.
constexpr std::size_t at_a_time = 64 * 1024;

} // namespace

void replica_state::on_letter(letter&& x) {
  if (x.at.epoch < epoch)
    return;
  if (x.what == subject::part) {
    const auto what = hosted->on({x.at}, x.data, x.room);
    if (const auto* broken_rule = std::get_if<tree::fault>(&what))
      fail(commit::cause::protocol, broken_rule->why);
  } else if (x.what == subject::sum) {
    mine->on(tree::sum{x.at}, x.data);
  } else {
    mine->on(tree::share{x.at}, x.data);
  }
}

void replica_state::drain() {
  letter x;
  for (auto& box = by->port_of(id); box.take(x);)
    on_letter(std::move(x));
}

void replica_state::send_part(std::uint32_t bucket, const tensor& part,
                              const terms& said) {
  const auto adders = reducers > 0 ? reducers : replicas;
  const auto slices = reducers > 0 ? 1 : tree::slices_of(part.size(), replicas);
  const auto room = mine->contribute(bucket, part, slices);
  for (std::uint32_t s = 0; s < slices; ++s) {
    letter x{subject::part,
             {epoch, next, incarnation, id, bucket, s, slices, said},
             part,
             room};
    const auto host = tree::adder_of(bucket, s, adders);
    if (reducers > 0)
      out.post({party::role::reducer, host}, std::move(x));
    else if (host == id)
      on_letter(std::move(x));
    else
      out.post(replica_named(host), std::move(x));
  }
}

void replica_state::send_share(std::uint32_t bucket, const tensor& part) {
  const auto copy = part.clone(); // peers may read it after the step has ended
  mine->gather(bucket, copy);
  for (std::uint32_t r = 0; r < replicas; ++r)
    if (r != id)
      out.post(replica_named(r), {subject::share,
                                  {epoch, next, incarnation, id, bucket, 0, 1},
                                  copy,
                                  {}});
}

bool replica_state::add_some(std::uint32_t bucket) {
  if (!hosted->busy())
    return false;
  if (auto done = hosted->work(at_a_time, bucket)) {
    const auto& seat = done->at;
    tree::stamp at{seat.epoch,  seat.step,  incarnation, 0,
                   seat.bucket, seat.slice, seat.slices};
    for (at.replica = 0; at.replica < replicas; ++at.replica)
      if (at.replica == id)
        mine->on(tree::sum{at}, done->sum);
      else
        out.post(replica_named(at.replica), {subject::sum, at, done->sum, {}});
  }
  return true;
}

} // namespace troupe
