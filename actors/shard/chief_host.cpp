#include "troupe/actors/shard/chief_host.hpp"

#include "troupe/actors/core/exception_text.hpp"
#include "troupe/actors/remoting/message_codec.hpp"

#include <exception>
#include <string>
#include <utility>
#include <variant>

namespace troupe {

namespace {

using namespace parameter_server;

} // namespace

chief_host::chief_host(shard_router_internal_actor::pointer self,
                       shard_connections connections, lead_training what,
                       promise done)
  : self_{self},
    connections_{std::move(connections)},
    what_{std::move(what)},
    machine_{connections_.shards, what_.replicas, what_.backup_workers,
             what_.training, what_.chief},
    shards_(connections_.shards),
    done_{std::move(done)} {
  for (auto& one : shards_) // they have to answer the query
    one.since = self_->clock().now();
}

chief_host::~chief_host() {
  fail(caf::make_error(ec::peer_lost,
                       std::string{"the connections to the servers have "
                                   "ended"}));
}

void chief_host::on(const contributed& x) {
  perform(machine_.on(x));
}

void chief_host::on_view(std::uint32_t shard, const shard_primary& view) {
  auto effects = machine_.on_view(shard, view);
  if (effects.empty())
    return;
  shards_[shard].sent = {}; // the primary before may never answer
  perform(std::move(effects));
}

void chief_host::on_interval() {
  const auto now = self_->clock().now();
  const auto limit = connections_.max_wait();
  for (auto& one : shards_) {
    if (one.since && now - *one.since > connections_.timeout)
      return fail(connections_.stalled());
    one.sent.end_if_late(now, limit);
  }
  perform(machine_.on_timeout());
}

void chief_host::stop() {
  if (!std::exchange(has_ended_, true))
    done_.deliver(machine_.decided_steps());
}

void chief_host::fail(const caf::error& why) {
  if (!std::exchange(has_ended_, true))
    done_.deliver(why);
}

void chief_host::perform(decision_reaction&& effects) {
  for (const auto& one : effects)
    if (!has_ended_)
      std::visit([this](const auto& x) { perform(x); }, one);
  if (has_ended_ || machine_.decided_steps() == told_steps_)
    return;
  told_steps_ = machine_.decided_steps();
  if (what_.on_decided)
    call([this] { what_.on_decided(told_steps_); });
}

/// Calls a function of the owner. An exception ends this chief.
void chief_host::call(const std::function<void()>& fn) {
  try {
    fn();
  } catch (...) {
    fail(
      caf::make_error(ec::invalid, exception_text(std::current_exception())));
  }
}

void chief_host::perform(const send_decision_query& x) {
  send<last_decision>(x.primary, x.shard,
                      shard_decision_query{x.shard, x.decision_query});
}

void chief_host::perform(const send_decision& x) {
  send<decided>(x.primary, x.shard, shard_decision{x.shard, x.decision});
}

void chief_host::perform(const ask_factors& x) {
  update_factors factors;
  call([&] { factors = what_.factors(x.step, x.contributors); });
  if (!has_ended_)
    perform(machine_.decide(x.step, factors));
}

void chief_host::perform(const chief_superseded&) {
  fail(caf::make_error(ec::superseded,
                       std::string{"another process is the chief of the "
                                   "training now"}));
}

void chief_host::perform(const protocol_error& x) {
  fail(caf::make_error(ec::protocol, x.reason));
}

template <class Answer, class Message>
void chief_host::send(std::uint64_t primary, std::uint32_t shard,
                      const Message& message) {
  auto& at = shards_[shard];
  const auto now = self_->clock().now();
  if (!at.since)
    at.since = now;
  const auto to = connections_.find(primary);
  if (!to || !at.sent.can_begin(now))
    return;
  const auto number = ++attempts_;
  at.sent.begin(number, now);
  self_->request(to, connections_.max_wait(), message)
    .then(
      [me = weak_from_this(), shard, number](const Answer& answer) {
        if (const auto self = me.lock())
          self->on_answer(shard, number, answer);
      },
      [me = weak_from_this(), shard, number](const caf::error& e) {
        if (const auto self = me.lock())
          self->on_error(shard, number, e);
      });
}

template <class Answer>
void chief_host::on_answer(std::uint32_t shard, std::uint64_t number,
                           const Answer& answer) {
  auto& at = shards_[shard];
  if (has_ended_)
    return;
  if (!at.sent.end(number)) { // an earlier attempt: a sign of life
    if (at.since && answer.view_id != 0)
      at.since = self_->clock().now();
    return;
  }
  if (answer.view_id == 0)
    return at.sent.pause(self_->clock().now());
  at = {};
  perform(machine_.on(shard, answer));
}

void chief_host::on_error(std::uint32_t shard, std::uint64_t number,
                          const caf::error& why) {
  if (has_ended_ || !shards_[shard].sent.end(number))
    return;
  const auto found = wire::to_wire(why, self_->system());
  if (found.code == ec::invalid || found.code == ec::superseded)
    fail(caf::make_error(found.code, found.text));
}

} // namespace troupe
