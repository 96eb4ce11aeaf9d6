#include "troupe/actors/replica/reducer.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/protocol/type_ids.hpp"

namespace troupe {

namespace {

/// Number of elements that are added for one message: less than a millisecond.
constexpr std::size_t at_a_time = 256 * 1024;

} // namespace

void reducer_state::on_part(const tree::part& x, const tensor& data,
                            const tensor& room) {
  const auto what = sums->on(x, data, room);
  if (const auto* broken = std::get_if<tree::fault>(&what))
    out.send(
      {party::role::chief, 0}, owner, subject::failed, x.at.epoch, x.at.step,
      commit::failed{x.at.epoch, x.at.step, x.at.replica, x.at.incarnation,
                     commit::cause::protocol, broken->why});
  if (sums->busy() && !adding) {
    adding = true;
    self->send(self, atom::next_v);
  }
}

void reducer_state::add_some() {
  if (const auto done = sums->work(at_a_time)) {
    const auto& seat = done->at;
    tree::stamp at{seat.epoch,  seat.step,  0,          0,
                   seat.bucket, seat.slice, seat.slices};
    for (at.replica = 0; at.replica < replicas; ++at.replica)
      out.post({party::role::replica, at.replica},
               {subject::sum, at, done->sum, {}});
  }
  adding = sums->busy();
  if (adding)
    self->send(self, atom::next_v);
}

void reducer_state::on_probe(const commit::probe& x) {
  if (const auto lack = sums->lacking(x.step))
    out.send({party::role::chief, 0}, owner, subject::blame, x.epoch, x.step,
             commit::blame{x.epoch, x.step, true, id, commit::doing::adding,
                           lack->bucket, lack->missing});
}

reducer_inside::behavior_type
reducer(reducer_inside::stateful_pointer<reducer_state> self, std::uint32_t id,
        std::uint32_t replicas, outbox out, owner_actor owner) {
  keep_last_words(self);
  auto& state = self->state;
  state.id = id;
  state.replicas = replicas;
  state.out = std::move(out);
  state.owner = std::move(owner);
  state.sums = std::make_unique<tree::adders>(replicas);
  return {
    [self](const tree::part& x, const tensor& data, const tensor& room) {
      self->state.on_part(x, data, room);
    },
    [self](const commit::probe& x) { self->state.on_probe(x); },
    [self](atom::next) { self->state.add_some(); },
  };
}

} // namespace troupe
