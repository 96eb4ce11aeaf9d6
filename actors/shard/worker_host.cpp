#include "troupe/actors/shard/worker_host.hpp"

#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/actors/shard/shard_state.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

namespace troupe {

namespace {

using namespace parameter_server;

/// Says why a shard does not take a push.
std::string text_of(push_result x) {
  switch (x) {
    case push_result::unknown_replica:
      return "it has no such replica";
    case push_result::unknown_part:
      return "it has no such part";
    case push_result::future_step:
      return "the step is too far ahead";
    case push_result::training_ended:
      return "a later training has begun";
    default:
      return "it rejects the push";
  }
}

} // namespace

worker_host::worker_host(shard_router_internal_actor::pointer self,
                         shard_connections connections, std::uint64_t client,
                         std::uint64_t training)
  : self_{self},
    connections_{std::move(connections)},
    client_{client},
    training_{training},
    machine_{client, connections_.shards, training},
    shards_(connections_.shards) {}

worker_host::~worker_host() {
  fail(caf::make_error(ec::peer_lost,
                       std::string{"the connections to the servers have "
                                   "ended"}));
}

// -- replicas -----------------------------------------------------------------

worker_host::push_promise worker_host::push(const replica_push& x,
                                            const tensors& gradient) {
  auto promise = self_->make_response_promise<parameter_server::push_result>();
  if (auto old = take_over(x.id.replica, x.by)) {
    promise.deliver(std::move(old));
    return promise;
  }
  if (x.shard >= shards_.size() || pushes_.contains({x.shard, x.id})) {
    promise.deliver(caf::make_error(
      ec::invalid, std::string{"a push to no shard, or a second one"}));
    return promise;
  }
  if (!has_request_of(x.shard))
    shards_[x.shard].last_answer = self_->clock().now();
  pushes_.emplace(push_key{x.shard, x.id}, open_push{promise});
  perform(machine_.push(x.shard, x.id, x.read_version, x.factors,
                        payload_of(gradient)));
  return promise;
}

worker_host::pull_promise worker_host::pull(const replica_pull& x,
                                            const tensors& rows) {
  auto promise = self_->make_response_promise<pulled, tensors>();
  const auto listed = std::ranges::count_if(
    x.has_rows, [](std::uint8_t one) { return one != 0; });
  if (x.shard >= shards_.size() || x.has_rows.size() != x.parts.size()
      || rows.size() != static_cast<std::size_t>(listed)) {
    promise.deliver(caf::make_error(
      ec::invalid, std::string{"a pull from no shard, or without its rows"}));
    return promise;
  }
  if (auto old = take_over(x.replica, x.by)) {
    promise.deliver(std::move(old));
    return promise;
  }
  const pull_key key{x.shard, x.replica};
  fail(key,
       caf::make_error(ec::cancelled, std::string{"another pull has begun"}));
  if (!has_request_of(x.shard))
    shards_[x.shard].last_answer = self_->clock().now();
  pulls_.emplace(key, open_pull{x, rows, promise});
  perform(machine_.pull(x.shard, x.replica, x.step, x.parts));
  return promise;
}

/// True if an execution of a closure was begun before another one.
bool worker_host::is_before(const coordinator::execution& a,
                            const coordinator::execution& b) {
  return std::tie(a.life, a.ordinal, a.attempt)
         < std::tie(b.life, b.ordinal, b.attempt);
}

/// An execution asks for a replica. Ends the requests of earlier ones.
/// @returns an error if the execution itself is an earlier one.
caf::error worker_host::take_over(std::uint32_t replica,
                                  const coordinator::execution& by) {
  const auto [last, is_new] = executions_.try_emplace(replica, by);
  if (is_before(by, last->second))
    return caf::make_error(ec::cancelled, std::string{"the replica was moved"});
  if (is_before(std::exchange(last->second, by), by))
    end_requests(replica);
  return {};
}

void worker_host::release(std::uint32_t replica,
                          const coordinator::execution& by) {
  const auto last = executions_.find(replica);
  if (last == executions_.end() || !is_before(by, last->second))
    end_requests(replica);
}

void worker_host::end_requests(std::uint32_t replica) {
  machine_.release(replica);
  const auto why =
    caf::make_error(ec::cancelled, std::string{"the replica was moved"});
  for (std::uint32_t shard = 0; shard < shards_.size(); ++shard)
    fail(pull_key{shard, replica}, why);
  std::vector<push_key> own;
  for (const auto& [key, unused] : pushes_)
    if (key.second.replica == replica)
      own.push_back(key);
  for (const auto& key : own)
    fail(key, why);
}

void worker_host::fail(const push_key& which, const caf::error& why) {
  if (auto found = pushes_.extract(which)) {
    machine_.give_up(which.first, which.second);
    found.mapped().promise.deliver(why);
  }
}

void worker_host::fail(const pull_key& which, const caf::error& why) {
  if (auto found = pulls_.extract(which))
    found.mapped().promise.deliver(why);
}

void worker_host::fail(const caf::error& why) {
  for (auto& [key, one] : std::exchange(pushes_, {}))
    one.promise.deliver(why);
  for (auto& [key, one] : std::exchange(pulls_, {}))
    one.promise.deliver(why);
}

bool worker_host::has_request_of(std::uint32_t shard) const {
  const auto is_of = [shard](const auto& one) {
    return one.first.first == shard;
  };
  return std::ranges::any_of(pushes_, is_of)
         || std::ranges::any_of(pulls_, is_of);
}

// -- shards -------------------------------------------------------------------

void worker_host::on_view(std::uint32_t shard, const shard_primary& view) {
  auto effects = machine_.on_view(shard, view);
  if (effects.empty())
    return;
  // What was sent to the primary before may never be answered.
  shards_[shard].accepted = {};
  for (auto& [key, one] : pushes_)
    if (key.first == shard)
      one.sent = {};
  for (auto& [key, one] : pulls_)
    if (key.first == shard)
      one.sent = {};
  perform(std::move(effects));
}

void worker_host::on_interval() {
  const auto now = self_->clock().now();
  const auto why = connections_.stalled();
  const auto is_late = [&](const auto& key) {
    return now - shards_[key.first].last_answer > connections_.timeout;
  };
  std::vector<push_key> late;
  for (const auto& [key, unused] : pushes_)
    if (is_late(key))
      late.push_back(key);
  for (const auto& key : late)
    fail(key, why);
  std::vector<pull_key> late_pulls;
  for (const auto& [key, unused] : pulls_)
    if (is_late(key))
      late_pulls.push_back(key);
  for (const auto& key : late_pulls)
    fail(key, why);
  const auto limit = connections_.max_wait();
  for (auto& one : shards_)
    one.accepted.end_if_late(now, limit);
  for (auto& [key, one] : pushes_)
    one.sent.end_if_late(now, limit);
  for (auto& [key, one] : pulls_)
    one.sent.end_if_late(now, limit);
  perform(machine_.on_timeout());
}

void worker_host::perform(worker_reaction&& effects) {
  for (auto& one : effects)
    std::visit([this](auto& x) { perform(x); }, one);
}

bool worker_host::can_begin(const request_attempt& x) const {
  return x.can_begin(self_->clock().now());
}

/// Returns the number of the attempt.
std::uint64_t worker_host::begin(request_attempt& x) {
  x.begin(++attempts_, self_->clock().now());
  return attempts_;
}

/// An attempt has failed. Unless the shard has rejected the request, it is sent
/// again after an interval.
template <class Map>
void worker_host::on_error(Map& all, const typename Map::key_type& key,
                           std::uint64_t number, const caf::error& why) {
  const auto one = all.find(key);
  if (one == all.end() || !one->second.sent.end(number))
    return;
  const auto found = wire::to_wire(why, self_->system());
  if (found.code == ec::invalid || found.code == ec::superseded)
    fail(key, caf::make_error(found.code, found.text));
}

/// A shard has answered. If it only ignores a request, again and again, that is
/// no sign of life, so the request is late at some time.
void worker_host::on_sign_of_life(std::uint32_t shard) {
  shards_[shard].last_answer = self_->clock().now();
}

void worker_host::perform(send_accepted& x) {
  const auto to = connections_.find(x.primary);
  auto& at = shards_[x.shard];
  if (!to || !can_begin(at.accepted))
    return;
  const auto number = begin(at.accepted);
  self_->request(to, connections_.timeout, shard_accepted{x.shard, x.accepted})
    .then(
      [me = weak_from_this(), shard = x.shard, number](const serving& answer) {
        if (const auto self = me.lock())
          self->on_answer(shard, number, answer);
      },
      [me = weak_from_this(), shard = x.shard, number](const caf::error&) {
        if (const auto self = me.lock())
          self->shards_[shard].accepted.end(number);
      });
}

void worker_host::on_answer(std::uint32_t shard, std::uint64_t number,
                            const serving& answer) {
  if (answer.view_id != 0)
    on_sign_of_life(shard);
  if (shards_[shard].accepted.end(number))
    perform(machine_.on(shard, answer));
}

void worker_host::perform(send_push& x) {
  const push_key key{x.shard, x.push.id};
  const auto found = pushes_.find(key);
  const auto to = connections_.find(x.primary);
  if (found == pushes_.end() || !to || !can_begin(found->second.sent))
    return;
  const auto number = begin(found->second.sent);
  self_
    ->request(to, connections_.max_wait(), shard_push{x.shard, client_, x.push},
              tensors_of(x.gradient))
    .then(
      [me = weak_from_this(), key, number](const shard_pushed& answer) {
        if (const auto self = me.lock())
          self->on_answer(key, number, answer);
      },
      [me = weak_from_this(), key, number](const caf::error& e) {
        if (const auto self = me.lock())
          self->on_error(self->pushes_, key, number, e);
      });
}

void worker_host::on_answer(const push_key& key, std::uint64_t number,
                            const shard_pushed& answer) {
  const auto found = pushes_.find(key);
  if (found == pushes_.end() || !found->second.sent.end(number))
    return on_sign_of_life(key.first);
  if (answer.pushed.view_id == 0)
    return found->second.sent.pause(self_->clock().now());
  on_sign_of_life(key.first);
  if (answer.pushed.result == push_result::unfit_gradient)
    fail(key, caf::make_error(ec::invalid, answer.problem));
  perform(machine_.on(key.first, answer.pushed));
}

void worker_host::perform(send_pull& x) {
  const pull_key key{x.shard, x.pull.replica};
  const auto found = pulls_.find(key);
  const auto to = connections_.find(x.primary);
  if (found == pulls_.end() || !to || !can_begin(found->second.sent))
    return;
  const auto number = begin(found->second.sent);
  self_
    ->request(
      to, connections_.timeout,
      shard_pull{x.shard, client_, x.pull, found->second.asked.has_rows},
      found->second.rows)
    .then(
      [me = weak_from_this(), key, number](const pulled& answer,
                                           const tensors& values) {
        if (const auto self = me.lock())
          self->on_answer(key, number, answer, values);
      },
      [me = weak_from_this(), key, number](const caf::error& e) {
        if (const auto self = me.lock())
          self->on_error(self->pulls_, key, number, e);
      });
}

void worker_host::on_answer(const pull_key& key, std::uint64_t number,
                            const pulled& answer, const tensors& values) {
  const auto found = pulls_.find(key);
  if (found == pulls_.end() || !found->second.sent.end(number))
    return on_sign_of_life(key.first);
  if (answer.view_id == 0 || values.size() != found->second.asked.parts.size())
    return found->second.sent.pause(self_->clock().now());
  on_sign_of_life(key.first);
  found->second.values = values;
  perform(machine_.on(key.first, answer));
}

void worker_host::perform(push_done& x) {
  if (auto found = pushes_.extract(push_key{x.shard, x.id}))
    found.mapped().promise.deliver(x.is_decided ? push_result::decided
                                                : push_result::accepted);
}

void worker_host::perform(pull_done& x) {
  if (auto found = pulls_.extract(pull_key{x.shard, x.replica})) {
    auto& one = found.mapped();
    one.promise.deliver(
      pulled{0, 0, x.replica, x.next_step, std::move(x.versions), training_},
      std::move(one.values));
  }
}

void worker_host::perform(worker_error& x) {
  fail(push_key{x.shard, x.id},
       caf::make_error(x.result == push_result::training_ended ? ec::superseded
                                                               : ec::invalid,
                       text_of(x.result)));
}

} // namespace troupe
