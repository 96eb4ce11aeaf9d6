#include "troupe/actors/collectives/tensor_transport.hpp"

#include "troupe/actors/protocol/type_ids.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

namespace troupe {

std::string to_string(const party& x) {
  switch (x.what) {
    case party::role::chief:
      return "chief";
    case party::role::replica:
      return "replica " + std::to_string(x.id);
    case party::role::steward:
      return "local agent " + std::to_string(x.id);
    case party::role::reducer:
      break;
  }
  return "reducer " + std::to_string(x.id);
}

direct_transport::direct_transport(std::uint32_t replicas, bool by_mail)
  : by_mail_{by_mail}, places_(replicas) {}

void direct_transport::place(const party& who, const caf::actor& it) {
  if (who.what == party::role::replica) {
    places_.at(who.id).who = it.address();
  } else {
    if (reducers_.size() <= who.id)
      reducers_.resize(who.id + 1);
    reducers_[who.id] = it.address();
  }
}

caf::actor direct_transport::find(const party& x) const {
  const auto& address =
    x.what == party::role::replica ? places_[x.id].who : reducers_[x.id];
  return caf::actor_cast<caf::actor>(address);
}

void direct_transport::mail(const party& to, letter&& x,
                            std::chrono::nanoseconds delay) const {
  const auto who = find(to);
  if (!who)
    return;
  const auto send = [&](auto&&... xs) {
    if (delay > std::chrono::nanoseconds{0})
      caf::delayed_anon_send(who, delay, std::move(xs)...);
    else
      caf::anon_send(who, std::move(xs)...);
  };
  if (x.what == subject::part)
    send(tree::part{x.at}, std::move(x.data), std::move(x.room));
  else if (x.what == subject::sum)
    send(tree::sum{x.at}, std::move(x.data));
  else
    send(tree::share{x.at}, std::move(x.data));
}

void direct_transport::post(const party& to, letter&& x) {
  if (by_mail_ || to.what != party::role::replica)
    return mail(to, std::move(x), {});
  auto& place = places_[to.id];
  if (!place.letters.post(std::move(x)))
    return mail(to, std::move(x), {}); // the queue is full, a mailbox never is
  if (place.letters.must_wake())
    if (const auto who = find(to))
      caf::anon_send(who, atom::wake_v);
}

void direct_transport::post_later(const party& to, letter&& x,
                                  std::chrono::nanoseconds delay) {
  mail(to, std::move(x), delay);
}

} // namespace troupe
