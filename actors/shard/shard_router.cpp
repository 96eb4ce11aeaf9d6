#include "troupe/actors/shard/shard_router.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/actors/shard/request_body.hpp"

#include <caf/typed_response_promise.hpp>

#include <algorithm>
#include <type_traits>

namespace troupe {

namespace {

using namespace std::chrono_literals;
using kind = shard_request_kind;

/// Time after which a request that could not be sent is tried again.
constexpr std::chrono::milliseconds retry_interval{5};
/// Time between looks at deadlines and lost connections.
constexpr std::chrono::milliseconds idle_interval{50};
/// Time between attempts to connect to a server.
constexpr std::chrono::milliseconds connect_interval{100};
/// Number of unknown errors after which a request fails.
constexpr int max_rejections = 5;

} // namespace

shard_router_state::~shard_router_state() {
  for (auto& one : shards_)
    for (auto& [id, x] : std::exchange(one.open, {}))
      x.fail(caf::make_error(ec::peer_lost,
                             std::string{"the connections to the servers have "
                                         "ended"}));
}

void shard_router_state::configure(shard_router_config config) {
  config_ = std::move(config);
  begin_ = self->clock().now();
  shards_.resize(config_.shards);
  for (const auto& address : config_.addresses)
    connections_[address];
  connect_all();
  plan_wake();
}

template <class Answer, class Message>
caf::typed_response_promise<Answer>
shard_router_state::send(std::uint32_t index, shard_request_kind what,
                         const Message& message, tensors operands,
                         std::vector<parameter_server::training> begins) {
  auto promise = self->make_response_promise<Answer>();
  open_request one;
  one.request.kind = what;
  if constexpr (!std::is_same_v<Message, caf::unit_t>)
    one.request.body = encode_body(message);
  one.request.command.begins = std::move(begins);
  one.operands = std::move(operands);
  one.fail = [promise](caf::error e) mutable { promise.deliver(std::move(e)); };
  one.deliver = [promise](const shard_answer& x,
                          const tensors& beside) mutable {
    std::optional<Answer> answer;
    if constexpr (std::is_same_v<Answer, tensor>) {
      if (beside.size() == 1)
        answer = beside[0];
    } else {
      Answer out{};
      if (!net::decode(std::as_bytes(std::span{x.body}), out))
        answer = std::move(out);
    }
    if (answer)
      promise.deliver(std::move(*answer));
    else
      promise.deliver(
        caf::make_error(ec::protocol, std::string{"the answer is malformed"}));
  };
  add(index, std::move(one));
  return promise;
}

void shard_router_state::add(std::uint32_t index, open_request&& x) {
  if (index >= shards_.size())
    return x.fail(caf::make_error(ec::invalid, "there is no shard "
                                                 + std::to_string(index)));
  auto& at = shards_[index];
  const bool reads = is_read(x.request.kind);
  const auto number = reads ? at.next_read++ : at.next++;
  x.request.shard = index;
  x.request.command.id = {config_.client, number};
  x.request.command.is_read = reads;
  x.deadline = self->clock().now() + config_.timeout;
  const request_id id{reads, number};
  at.open.emplace(id, std::move(x));
  try_send(index, id);
}

const shard_router_state::connection*
shard_router_state::find(std::uint64_t server) const {
  for (const auto& [address, one] : connections_)
    if (one.link.host && one.link.server == server)
      return &one;
  return nullptr;
}

/// Sends a request if the primary is known and connected.
void shard_router_state::try_send(std::uint32_t index, const request_id& id) {
  auto& at = shards_[index];
  auto& x = at.open.at(id);
  const auto* const to =
    index < table_.shards.size() ? find(table_.shards[index].primary) : nullptr;
  if (!to)
    return plan_wake();
  x.sent_to = to->link.server;
  const auto attempt = ++x.attempt;
  auto request = x.request;
  // The lowest number of a request without an answer. A shard that has answered
  // none knows nothing of this client.
  if (!id.first && at.has_answered)
    request.command.answered_below = at.open.begin()->first.second;
  self
    ->request(to->link.host, std::min(max_attempt, config_.timeout),
              std::move(request), x.operands)
    .then(
      [=, this](const shard_answer& answer, const tensors& beside) {
        on_answer(index, id, attempt, answer, beside);
      },
      [=, this](const caf::error& e) {
        // A host that ends can answer with its reason. But a message that
        // cannot be sent will never be.
        auto& open = shards_[index].open;
        const auto found = open.find(id);
        if (found == open.end())
          return;
        const auto why = wire::to_wire(e, self->system());
        // `ec::invalid` would say that the shard has rejected the request.
        if (why.code == ec::invalid
            && ++found->second.rejections >= max_rejections)
          return open.extract(found).mapped().fail(
            caf::make_error(ec::stalled, why.text));
        send_again(index, id, attempt);
      });
}

void shard_router_state::on_answer(std::uint32_t index, const request_id& id,
                                   std::uint64_t attempt,
                                   const shard_answer& answer,
                                   const tensors& beside) {
  switch (answer.outcome) {
    case shard_outcome::not_serving:
    case shard_outcome::busy:
      return send_again(index, id, attempt);
    case shard_outcome::done:
    case shard_outcome::invalid:
    case shard_outcome::forgotten:
      break;
  }
  auto found = shards_[index].open.extract(id);
  if (!found)
    return; // another answer was first
  if (answer.outcome == shard_outcome::forgotten)
    return found.mapped().fail(caf::make_error(
      ec::peer_lost, std::string{"the server has forgotten this client"}));
  shards_[index].has_answered |= !id.first;
  if (answer.outcome == shard_outcome::done)
    return found.mapped().deliver(answer, beside);
  found.mapped().fail(caf::make_error(ec::invalid, answer.problem));
}

/// An attempt has failed.
void shard_router_state::send_again(std::uint32_t index, const request_id& id,
                                    std::uint64_t attempt) {
  auto& open = shards_[index].open;
  const auto found = open.find(id);
  if (found == open.end() || found->second.attempt != attempt)
    return;
  found->second.sent_to = 0;
  plan_wake();
}

void shard_router_state::send_all() {
  for (std::uint32_t i = 0; i < shards_.size(); ++i)
    for (const auto& [id, x] : shards_[i].open)
      if (x.sent_to == 0)
        try_send(i, id);
}

// -- trainings ----------------------------------------------------------------

caf::typed_response_promise<std::uint64_t>
shard_router_state::begin(std::uint32_t shard, const new_training& x,
                          const parameter_server::training& what) {
  return send<std::uint64_t>(shard, kind::begin, x, {}, {what});
}

worker_host& shard_router_state::worker_of(std::uint64_t training) {
  if (const auto found = workers_.find(training); found != workers_.end())
    return *found->second;
  // The pulls of an earlier one with the same number could be newer.
  std::erase_if(workers_, [&](const auto& one) {
    return one.first < training && one.second->is_idle();
  });
  const auto made = std::make_shared<worker_host>(self, connections(),
                                                  config_.client, training);
  workers_.emplace(training, made);
  for (std::uint32_t i = 0; i < table_.shards.size(); ++i)
    made->on_view(i, {table_.shards[i].view_id, table_.shards[i].primary});
  return *made;
}

shard_connections shard_router_state::connections() {
  return {config_.shards,
          [this](std::uint64_t server) {
            const auto* const at = find(server);
            return at ? at->link.host : shard_host_actor{};
          },
          [this] { return place_text(); }, config_.timeout};
}

caf::typed_response_promise<std::uint64_t>
shard_router_state::lead(const lead_training& x) {
  auto promise = self->make_response_promise<std::uint64_t>();
  if (x.backup_workers >= x.replicas || !x.factors || x.chief == 0) {
    promise.deliver(caf::make_error(
      ec::invalid, "chief " + std::to_string(x.chief)
                     + " lacks a number, the factors, or a replica that is no "
                       "backup worker: "
                     + std::to_string(x.backup_workers) + " of "
                     + std::to_string(x.replicas)));
    return promise;
  }
  if (const auto found = chiefs_.find(x.training);
      found != chiefs_.end() && found->second->number() >= x.chief) {
    promise.deliver(
      caf::make_error(ec::superseded, std::string{"a later chief of the "
                                                  "training is here"}));
    return promise;
  }
  if (auto before = chiefs_.extract(x.training))
    before.mapped()->fail(caf::make_error(
      ec::superseded, std::string{"a later chief of the training is here"}));
  std::erase_if(contributed_,
                [&](const auto& one) { return one.first.first < x.training; });
  const auto made =
    std::make_shared<chief_host>(self, connections(), x, promise);
  chiefs_[x.training] = made;
  for (std::uint32_t i = 0; i < table_.shards.size(); ++i)
    made->on_view(i, {table_.shards[i].view_id, table_.shards[i].primary});
  for (const auto& [key, next_step] : contributed_)
    if (key.first == x.training)
      made->on({key.second, next_step, key.first});
  return promise;
}

void shard_router_state::stop_chief(std::uint64_t training) {
  if (auto found = chiefs_.extract(training))
    found.mapped()->stop();
}

/// Keeps the last report on each replica, because a later chief needs it.
void shard_router_state::on(const parameter_server::contributed& x) {
  auto& next_step = contributed_[{x.training, x.replica}];
  next_step = std::max(next_step, x.next_step);
  if (const auto found = chiefs_.find(x.training); found != chiefs_.end())
    found->second->on(x);
}

/// Calls a function with each worker host and chief host.
template <class Fn>
void shard_router_state::for_each_hosted(const Fn& fn) {
  for (const auto& [training, one] : workers_)
    fn(*one);
  for (const auto& [training, one] : chiefs_)
    fn(*one);
  std::erase_if(chiefs_, [](const auto& x) { return x.second->has_ended(); });
}

void shard_router_state::release(std::uint64_t training, std::uint32_t replica,
                                 const coordinator::execution& by) {
  if (const auto found = workers_.find(training); found != workers_.end())
    found->second->release(replica, by);
}

// -- connections --------------------------------------------------------------

void shard_router_state::connect_all() {
  const auto now = self->clock().now();
  for (auto& [address, one] : connections_) {
    if (one.link.host || one.is_connecting || now < one.next_attempt)
      continue;
    one.is_connecting = true;
    one.next_attempt = now + connect_interval;
    config_.connect(address, self->address());
  }
}

void shard_router_state::on_link(const host_link& x) {
  const auto found = connections_.find(x.address);
  if (found == connections_.end() || !found->second.is_connecting)
    return;
  auto& one = found->second;
  one.is_connecting = false;
  if (!x.host)
    return on_failed_attempt(x, one);
  one.link = x;
  one.was_connected = true;
  self->monitor(x.host);
  follow(x);
  send_all();
  for_each_hosted([](auto& one) { one.on_interval(); });
}

/// Waits for the next table of a server.
void shard_router_state::follow(const host_link& link) {
  self->request(link.host, 30s, atom::next_v, table_.version)
    .then(
      [this, address = link.address,
       server = link.server](const copy_table& next) {
        on_table(next);
        const auto found = connections_.find(address);
        if (found != connections_.end() && found->second.link.host
            && found->second.link.server == server)
          follow(found->second.link);
      },
      [this, address = link.address,
       server = link.server](const caf::error& e) {
        const auto found = connections_.find(address);
        if (found == connections_.end() || !found->second.link.host
            || found->second.link.server != server)
          return;
        // Unless the server has only been slow, its proxy ends too.
        const auto code = wire::to_wire(e, self->system()).code;
        if (code == ec::stalled)
          follow(found->second.link);
        found->second.is_to_follow = code == ec::busy; // in `on_wake`
      });
}

void shard_router_state::on_down(const caf::actor_addr& source) {
  for (auto& [address, one] : connections_)
    if (one.link.host && one.link.host == source) {
      one.link = {};
      one.next_attempt = self->clock().now() + retry_interval;
    }
  plan_wake();
}

void shard_router_state::on_table(const copy_table& x) {
  if (x.version <= table_.version || x.shards.size() != shards_.size())
    return;
  table_ = x;
  for (std::uint32_t i = 0; i < shards_.size(); ++i)
    if (x.shards[i].is_lost)
      return end(caf::make_error(
        ec::peer_lost, "parameter server " + std::to_string(i)
                         + " is lost, and no process has a copy of it"));
  std::set<std::string> living;
  for (const auto& one : x.servers) {
    living.insert(one.address);
    connections_[one.address];
  }
  std::erase_if(connections_, [&](const auto& one) {
    return !one.second.link.host && !living.contains(one.first);
  });
  connect_all();
  // What was sent to an old primary can be lost.
  for (std::uint32_t i = 0; i < shards_.size(); ++i)
    for (auto& [id, one] : shards_[i].open)
      if (one.sent_to != x.shards[i].primary)
        one.sent_to = 0;
  send_all();
  for_each_hosted([&](auto& one) {
    for (std::uint32_t i = 0; i < shards_.size(); ++i)
      one.on_view(i, {x.shards[i].view_id, x.shards[i].primary});
  });
}

/// Ends this router, because a job without one of its shards cannot go on.
void shard_router_state::end(const caf::error& why) {
  for (auto& one : shards_)
    for (auto& [id, x] : std::exchange(one.open, {}))
      x.fail(why);
  for_each_hosted([&](auto& one) { one.fail(why); });
  self->quit(why);
}

/// A process that does not have its shards any more, or cannot be reached at
/// the start, ends the router, unless others can have copies of the shards.
void shard_router_state::on_failed_attempt(const host_link& x,
                                           const connection& of) {
  const bool is_late =
    !of.was_connected && self->clock().now() - begin_ > config_.connect_timeout;
  if (config_.copies > 1 || (!x.is_refused && !is_late))
    return plan_wake();
  end(caf::make_error(x.is_refused ? ec::peer_lost : ec::unreachable,
                      "parameter server at " + x.address
                        + (x.is_refused ? " is lost: " : ": ") + x.problem));
}

void shard_router_state::on_wake() {
  const auto now = self->clock().now();
  if (now >= next_wake_)
    next_wake_ = time_point::max();
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    std::vector<request_id> late;
    for (const auto& [id, x] : shards_[i].open)
      if (x.deadline <= now)
        late.push_back(id);
    for (const auto& id : late)
      shards_[i].open.extract(id).mapped().fail(connections().stalled());
  }
  for (auto& [address, one] : connections_)
    if (std::exchange(one.is_to_follow, false) && one.link.host)
      follow(one.link);
  connect_all();
  send_all();
  for_each_hosted([](auto& one) { one.on_interval(); });
  plan_wake();
}

/// Names the servers that are connected.
std::string shard_router_state::place_text() const {
  std::string out;
  for (const auto& [address, one] : connections_)
    out += (out.empty() ? "; connected: " : ", ") + address
           + (one.link.host ? "" : " (not)");
  return out;
}

void shard_router_state::plan_wake() {
  bool has_unsent = false;
  for (const auto& one : shards_)
    for (const auto& [id, x] : one.open)
      has_unsent |= x.sent_to == 0;
  const auto wait = has_unsent ? retry_interval : idle_interval;
  const auto at = self->clock().now() + wait;
  if (next_wake_ <= at)
    return;
  next_wake_ = at;
  self->delayed_send(self, wait, atom::wake_v);
}

shard_router_internal_actor::behavior_type shard_router(
  shard_router_internal_actor::stateful_pointer<shard_router_state> self,
  shard_router_config config) {
  install_exception_handler(self);
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->state.on_down(x.source); });
  self->state.configure(std::move(config));
  auto& to = self->state;
  return {
    [&to](std::uint32_t shard, const new_part& x, const tensor& initial) {
      return to.send<std::uint64_t>(shard, kind::new_part, x, {initial});
    },
    [&to](std::uint32_t shard, const new_optimizer& x) {
      return to.send<std::uint64_t>(shard, kind::new_optimizer, x);
    },
    [&to](std::uint32_t shard, const part_pull& x, const tensors& operands) {
      return to.send<tensor>(shard, kind::pull, x, operands);
    },
    [&to](std::uint32_t shard, const optimizer_pull& x) {
      return to.send<tensor>(shard, kind::pull_optimizer, x);
    },
    [&to](std::uint32_t shard, const change_list& x, const tensors& operands) {
      return to.send<std::uint64_t>(shard, kind::change, x, operands);
    },
    [&to](std::uint32_t shard, const execution_effects& x,
          const tensors& operands) {
      return to.send<std::uint64_t>(shard, kind::store, x, operands);
    },
    [&to](std::uint32_t shard, const coordinator::decision& x) {
      return to.send<coordinator::decided>(shard, kind::decide, x);
    },
    [&to](std::uint32_t shard, atom::info) {
      return to.send<part_table>(shard, kind::table, caf::unit);
    },
    [&to](std::uint32_t shard, atom::status) {
      return to.send<shard_status>(shard, kind::status, caf::unit);
    },
    [&to](std::uint32_t shard, const removal& x) {
      return to.send<std::uint64_t>(shard, kind::remove, x);
    },
    [&to](std::uint32_t shard, const new_training& x,
          const parameter_server::training& what) {
      return to.begin(shard, x, what);
    },
    [&to](const replica_push& x, const tensors& gradient) {
      return to.worker_of(x.training).push(x, gradient);
    },
    [&to](const replica_pull& x, const tensors& rows) {
      return to.worker_of(x.training).pull(x, rows);
    },
    [&to](atom::release, std::uint64_t training, std::uint32_t replica,
          const coordinator::execution& by) {
      to.release(training, replica, by);
    },
    [&to](const lead_training& x) { return to.lead(x); },
    [&to](atom::stop, std::uint64_t training) { to.stop_chief(training); },
    [&to](const parameter_server::contributed& x) { to.on(x); },
    [&to](const copy_table& x) { to.on_table(x); },
    [&to](const host_link& x) { to.on_link(x); },
    [&to](atom::wake) { to.on_wake(); },
  };
}

} // namespace troupe
