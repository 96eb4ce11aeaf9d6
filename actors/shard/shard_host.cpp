#include "troupe/actors/shard/shard_host.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/actors/shard/request_body.hpp"

#include <caf/actor_cast.hpp>

#include <algorithm>
#include <chrono>
#include <span>
#include <stdexcept>
#include <string>

namespace troupe {

namespace {

using namespace parameter_server;
using namespace std::chrono_literals;

/// Interval of the protocol between copies.
constexpr std::chrono::milliseconds check_interval{30};
/// Time after which a client gets the table that it has.
constexpr std::chrono::milliseconds table_timeout{5'000};

payload payload_of(shard_request_kind kind,
                   const std::vector<std::uint8_t>& body,
                   const tensors& operands) {
  return {
    std::make_shared<const shard_content>(shard_content{kind, body, operands}),
    body.size() + bytes_of(operands)};
}

/// Returns what is beside a record.
/// @errors throws std::invalid_argument if it is malformed.
payload payload_of(const copy_record& x, const tensors& operands) {
  const auto& commands = x.record.commands;
  if (!commands.empty()) {
    if (commands[0].begins.empty() == (x.kind == shard_request_kind::begin))
      throw std::invalid_argument("a record of the log has a wrong kind");
    return payload_of(x.kind, x.body, operands);
  }
  return payload_of(operands);
}

/// Returns the error of a request that breaks the protocol. None: it does not.
caf::error error_of(const shard_reaction& effects) {
  for (const auto& one : effects)
    if (const auto* const x = std::get_if<protocol_error>(&one))
      return caf::make_error(ec::invalid, x->reason);
  return {};
}

/// Returns the tensors of the image of a snapshot, and appends the gradients
/// that wait, whose tensors are before them.
/// @errors throws std::invalid_argument if tensors are missing.
std::span<const tensor> beside_image(const copy_snapshot& x,
                                     std::span<const tensor> beside,
                                     std::vector<payload>& waiting) {
  for (const auto count : x.operands) {
    if (count > beside.size())
      throw std::invalid_argument(
        "the snapshot of a shard: tensors of a gradient are missing");
    waiting.push_back(
      payload_of(tensors{beside.begin(), beside.begin() + count}));
    beside = beside.subspan(count);
  }
  return beside;
}

caf::error later_training() {
  return caf::make_error(ec::superseded,
                         std::string{"a later training has begun"});
}

shard_outcome outcome_of(command_refusal x) {
  switch (x) {
    case command_refusal::not_serving:
      return shard_outcome::not_serving;
    case command_refusal::busy:
      return shard_outcome::busy;
    case command_refusal::impossible_training:
      return shard_outcome::invalid;
    case command_refusal::forgotten:
      break;
  }
  return shard_outcome::forgotten;
}

} // namespace

void shard_host_state::configure(shard_host_config config) {
  config_ = std::move(config);
  for (std::uint32_t i = 0; i < config_.shards; ++i)
    copies_.push_back({shard_copy{config_.self, {}}, shard_store{i}});
  backups_.emplace(
    self, config_.connect,
    backup_sender::host_functions{
      [this](std::uint32_t shard) { return copies_[shard].machine.view_id(); },
      [this](std::uint32_t shard, tensors& beside) {
        return copies_[shard].store.save(beside);
      },
      [this](std::uint32_t shard, const stored& answer) {
        perform(shard, copies_[shard].machine.on(answer));
      }});
}

shard_host_state::copy* shard_host_state::find(std::uint32_t shard) {
  return shard < copies_.size() ? &copies_[shard] : nullptr;
}

// -- clients ------------------------------------------------------------------

shard_host_state::answer_promise
shard_host_state::request(const shard_request& x, const tensors& operands) {
  auto promise = self->make_response_promise<shard_answer, tensors>();
  auto* const at = find(x.shard);
  const bool begins = x.kind == shard_request_kind::begin;
  if (!at || is_read(x.kind) != x.command.is_read
      || x.kind == shard_request_kind::rejected
      || begins != (x.command.begins.size() == 1)) {
    promise.deliver(shard_answer{shard_outcome::invalid,
                                 {},
                                 "there is no shard " + std::to_string(x.shard)
                                   + ", or its request has a wrong kind"},
                    tensors{});
    return promise;
  }
  auto& waiting = x.command.is_read ? at->reads : at->commands;
  refuse(waiting, x.command.id, shard_outcome::not_serving); // asked again
  waiting.emplace(x.command.id, promise);
  auto content = content_for_log(*at, x, operands);
  auto command = x.command;
  if (content_of(content)->kind == shard_request_kind::rejected)
    command.begins.clear();
  perform(x.shard, at->machine.on(command, content));
  return promise;
}

/// Returns the content of a request, or in its place a rejection, which all
/// copies answer, if the request would exceed the limit of memory or begin an
/// impossible training.
payload shard_host_state::content_for_log(const copy& at,
                                          const shard_request& x,
                                          const tensors& operands) const {
  const bool begins = !x.command.begins.empty();
  std::string problem;
  if (at.machine.serves() && (begins || config_.max_bytes > 0)) {
    const shard_content content{x.kind, x.body, operands};
    problem = begins ? at.store.training_problem(content, x.command.begins[0])
                     : at.store.limit_problem(content, config_.max_bytes);
  }
  return problem.empty() ? payload_of(x.kind, x.body, operands)
                         : payload_of(shard_request_kind::rejected,
                                      {problem.begin(), problem.end()}, {});
}

void shard_host_state::answer(answer_promise& to, shard_answer&& x,
                              tensors&& beside) const {
  if (config_.before_answer)
    config_.before_answer();
  to.deliver(std::move(x), std::move(beside));
}

void shard_host_state::refuse(std::map<id, answer_promise>& waiting,
                              const id& which, shard_outcome why) {
  if (auto found = waiting.extract(which))
    found.mapped().deliver(shard_answer{why, {}, {}}, tensors{});
}

/// This copy does not serve any more.
void shard_host_state::refuse_all(copy& at) {
  for (auto* waiting : {&at.commands, &at.reads})
    while (!waiting->empty())
      refuse(*waiting, waiting->begin()->first, shard_outcome::not_serving);
  for (auto& [id, one] : std::exchange(at.pushes, {}))
    one.deliver(shard_pushed{});
  for (auto& [step, one] : std::exchange(at.decisions, {}))
    one.deliver(decided{});
  for (auto& [chief, one] : std::exchange(at.queries, {}))
    one.deliver(last_decision{});
  for (auto& [worker, one] : std::exchange(at.accepted, {}))
    one.deliver(serving{});
  ignore_pulls(at);
}

// -- workers and the chief ----------------------------------------------------

/// The copy has forgotten its pulls: a view or a training has begun.
void shard_host_state::ignore_pulls(copy& at) const {
  for (auto& [replica, one] : std::exchange(at.pulls, {}))
    one.promise.deliver(pulled{}, tensors{});
}

shard_host_state::push_promise shard_host_state::push(const shard_push& x,
                                                      const tensors& operands) {
  auto promise = self->make_response_promise<shard_pushed>();
  const auto& given = x.push;
  auto* const at = find(x.shard);
  if (!at) {
    promise.deliver(shard_pushed{});
    return promise;
  }
  const auto& machine = at->machine;
  if (machine.takes(given)) {
    auto problem =
      at->store.gradient_problem(given, operands, config_.max_bytes);
    if (!problem.empty()) {
      promise.deliver(
        shard_pushed{{machine.view_id(), given.id, push_result::unfit_gradient,
                      given.training},
                     std::move(problem)});
      return promise;
    }
  }
  if (auto earlier = at->pushes.extract(given.id))
    earlier.mapped().deliver(shard_pushed{}); // asked again
  at->pushes.emplace(given.id, promise);
  perform(x.shard, at->machine.on(x.worker, given, payload_of(operands)));
  if (!at->machine.awaits(given.id))
    if (auto ignored = at->pushes.extract(given.id))
      ignored.mapped().deliver(shard_pushed{});
  return promise;
}

/// True if the shard serves a later training.
bool shard_host_state::has_ended(const copy& at, std::uint64_t training) {
  return at.machine.serves() && training < at.machine.current().number;
}

shard_host_state::pull_promise shard_host_state::pull(const shard_pull& x,
                                                      const tensors& rows) {
  auto promise = self->make_response_promise<pulled, tensors>();
  auto* const at = find(x.shard);
  const auto listed = std::ranges::count_if(
    x.has_rows, [](std::uint8_t one) { return one != 0; });
  if (!at || x.has_rows.size() != x.pull.parts.size()
      || rows.size() != static_cast<std::size_t>(listed)) {
    promise.deliver(pulled{}, tensors{});
    return promise;
  }
  if (has_ended(*at, x.pull.training)) {
    promise.deliver(later_training());
    return promise;
  }
  const auto replica = x.pull.replica;
  if (auto earlier = at->pulls.extract(replica))
    earlier.mapped().promise.deliver(pulled{}, tensors{});
  auto effects = at->machine.on(x.worker, x.pull);
  if (auto error = error_of(effects)) {
    promise.deliver(std::move(error));
    return promise;
  }
  at->pulls.emplace(replica, open_pull{x, rows, promise});
  perform(x.shard, std::move(effects));
  if (!at->machine.awaits(x.worker, x.pull))
    if (auto ignored = at->pulls.extract(replica))
      ignored.mapped().promise.deliver(pulled{}, tensors{});
  return promise;
}

void shard_host_state::perform(std::uint32_t, copy& at,
                               parameter_server::answer_pull& x) {
  const auto found = at.pulls.find(x.pulled.replica);
  if (found == at.pulls.end() || found->second.asked.worker != x.worker
      || found->second.asked.pull.number != x.pulled.number)
    return;
  auto one = std::move(at.pulls.extract(found).mapped());
  tensors values;
  auto rows = one.rows.begin();
  try {
    for (std::size_t i = 0; i < x.parts.size(); ++i)
      values.push_back(at.store.value_of(
        x.parts[i], one.asked.has_rows[i] != 0 ? *rows++ : tensor{}));
  } catch (const std::logic_error& e) {
    one.promise.deliver(caf::make_error(ec::invalid, std::string{e.what()}));
    return;
  } catch (const std::bad_alloc&) {
    one.promise.deliver(
      caf::make_error(ec::invalid, std::string{"out of memory"}));
    return;
  }
  if (config_.before_answer)
    config_.before_answer();
  one.promise.deliver(x.pulled, std::move(values));
}

shard_host_state::decision_promise
shard_host_state::decide(const shard_decision& x) {
  auto promise = self->make_response_promise<decided>();
  auto* const at = find(x.shard);
  if (!at) {
    promise.deliver(decided{});
    return promise;
  }
  if (has_ended(*at, x.decision.training)) {
    promise.deliver(later_training());
    return promise;
  }
  const std::pair key{x.decision.training, x.decision.step};
  if (auto problem = problem_of(x.decision.factors); !problem.empty()) {
    promise.deliver(caf::make_error(ec::invalid, std::move(problem)));
    return promise;
  }
  if (auto earlier = at->decisions.extract(key))
    earlier.mapped().deliver(decided{});
  auto effects = at->machine.on(x.decision);
  if (auto error = error_of(effects)) {
    promise.deliver(std::move(error));
    return promise;
  }
  at->decisions.emplace(key, promise);
  perform(x.shard, std::move(effects));
  return promise;
}

/// Answers the decisions and queries that have no effect.
void shard_host_state::ignore_decisions(copy& at) const {
  std::erase_if(at.decisions, [&](const auto& one) {
    const auto& [training, step] = one.first;
    if (at.machine.awaits_decision(training, step))
      return false;
    auto promise = one.second;
    promise.deliver(decided{});
    return true;
  });
  answer_queries(at, {});
}

/// Answers the queries that wait for no backup.
void shard_host_state::answer_queries(copy& at, const last_decision& x) const {
  std::erase_if(at.queries, [&](const auto& one) {
    const auto& [training, chief] = one.first;
    if (at.machine.awaits_query(training, chief))
      return false;
    auto promise = one.second;
    promise.deliver(x);
    return true;
  });
}

shard_host_state::query_promise
shard_host_state::query(const shard_decision_query& x) {
  auto promise = self->make_response_promise<last_decision>();
  auto* const at = find(x.shard);
  if (!at) {
    promise.deliver(last_decision{});
    return promise;
  }
  if (has_ended(*at, x.query.training)) {
    promise.deliver(later_training());
    return promise;
  }
  const std::pair key{x.query.training, x.query.chief};
  if (auto earlier = at->queries.extract(key))
    earlier.mapped().deliver(last_decision{});
  auto effects = at->machine.on(x.query);
  if (auto error = error_of(effects)) {
    promise.deliver(std::move(error));
    return promise;
  }
  at->queries.emplace(key, promise);
  perform(x.shard, std::move(effects));
  return promise;
}

caf::typed_response_promise<serving>
shard_host_state::accept(const shard_accepted& x) {
  auto promise = self->make_response_promise<serving>();
  auto* const at = find(x.shard);
  if (!at || x.accepted.view_id != at->machine.view_id()
      || !at->machine.is_primary()) {
    promise.deliver(serving{});
    return promise;
  }
  if (auto earlier = at->accepted.extract(x.accepted.worker))
    earlier.mapped().deliver(serving{});
  at->accepted.emplace(x.accepted.worker, promise);
  perform(x.shard, at->machine.on(x.accepted));
  return promise;
}

// -- views --------------------------------------------------------------------

caf::result<copy_table> shard_host_state::next_table(std::uint64_t version) {
  if (table_.version > version)
    return table_;
  auto promise = self->make_response_promise<copy_table>();
  awaited_tables_.emplace_back(self->clock().now(), promise);
  return promise;
}

copy_report shard_host_state::enter(const copy_table& next,
                                    std::uint64_t poll) {
  if (next.version > table_.version && next.shards.size() == copies_.size()) {
    table_ = next;
    auto others = next.servers;
    std::erase_if(others, [&](const server_address& x) {
      return x.server == config_.self;
    });
    backups_->set_servers(others);
    for (std::uint32_t i = 0; i < copies_.size(); ++i) {
      const auto& x = next.shards[i];
      const auto before = copies_[i].machine.view_id();
      perform(
        i, copies_[i].machine.on_view(
             {x.view_id, x.term, x.previous_term, x.primary, x.backups, {}}));
      if (!copies_[i].machine.is_primary())
        refuse_all(copies_[i]);
      if (copies_[i].machine.view_id() != before)
        ignore_pulls(copies_[i]);
    }
    for (auto& [since, one] : std::exchange(awaited_tables_, {}))
      one.deliver(table_);
  }
  copy_report out{poll, {}, {}, {}, {}};
  for (const auto& one : copies_) {
    const auto at = one.machine.position();
    out.view_ids.push_back(at.view_id);
    out.terms.push_back(at.term);
    out.sequences.push_back(at.sequence);
    out.is_in_sync.push_back(at.is_in_sync);
  }
  return out;
}

// -- copies -------------------------------------------------------------------

void shard_host_state::perform(std::uint32_t shard, shard_reaction&& effects) {
  for (auto& one : effects)
    perform(shard, copies_[shard], one);
  ignore_decisions(copies_[shard]);
}

void shard_host_state::perform(std::uint32_t shard, copy& at,
                               shard_effect& effect) {
  std::visit([&](auto& x) { perform(shard, at, x); }, effect);
}

void shard_host_state::perform(std::uint32_t, copy& at,
                               parameter_server::apply& x) {
  at.store.apply(x.update);
}

void shard_host_state::perform(std::uint32_t, copy& at,
                               parameter_server::begin_training&) {
  ignore_pulls(at);
}

void shard_host_state::perform(std::uint32_t shard, copy& at,
                               parameter_server::apply_command& x) {
  at.store.apply(x.command, *content_of(x.content),
                 table_.shards[shard].backups.empty());
}

void shard_host_state::perform(std::uint32_t, copy& at,
                               parameter_server::forget_client& x) {
  at.store.forget(x.client);
}

void shard_host_state::perform(std::uint32_t, copy& at,
                               parameter_server::drop_state&) {
  at.store.clear();
}

void shard_host_state::perform(std::uint32_t, copy&,
                               parameter_server::install_snapshot&) {}

void shard_host_state::perform(std::uint32_t, copy& at,
                               parameter_server::answer_push& x) {
  if (auto found = at.pushes.extract(x.pushed.id)) {
    if (config_.before_answer)
      config_.before_answer();
    found.mapped().deliver(shard_pushed{x.pushed, {}});
  }
}

void shard_host_state::perform(std::uint32_t, copy& at,
                               parameter_server::answer_decision& x) {
  if (auto found =
        at.decisions.extract(std::pair{x.decided.training, x.decided.step}))
    found.mapped().deliver(x.decided);
}

void shard_host_state::perform(std::uint32_t, copy& at,
                               parameter_server::answer_decision_query& x) {
  answer_queries(at, x.last_decision);
}

void shard_host_state::perform(std::uint32_t, copy& at,
                               parameter_server::answer_command& x) {
  if (auto found = at.commands.extract(x.id))
    answer(found.mapped(), shard_answer{at.store.answer(x.id)}, {});
}

void shard_host_state::perform(std::uint32_t, copy& at,
                               parameter_server::answer_read& x) {
  if (auto found = at.reads.extract(x.id)) {
    auto [read, beside] = at.store.read(*content_of(x.content));
    answer(found.mapped(), std::move(read), std::move(beside));
  }
}

void shard_host_state::perform(std::uint32_t, copy& at,
                               parameter_server::refuse_command& x) {
  refuse(x.is_read ? at.reads : at.commands, x.id, outcome_of(x.why));
}

void shard_host_state::perform(std::uint32_t, copy& at,
                               parameter_server::send_serving& x) {
  for (const auto worker : x.workers)
    if (auto found = at.accepted.extract(worker))
      found.mapped().deliver(x.serving);
}

void shard_host_state::perform(std::uint32_t, copy&,
                               parameter_server::send_stored& x) {
  stored_ = x.stored;
}

void shard_host_state::perform(std::uint32_t shard, copy&,
                               parameter_server::send_record& x) {
  backups_->send(shard, std::move(x));
}

void shard_host_state::perform(std::uint32_t shard, copy&,
                               parameter_server::send_snapshot& x) {
  backups_->send(shard, std::move(x));
}

void shard_host_state::perform(std::uint32_t shard, copy&,
                               parameter_server::send_inquire& x) {
  backups_->send(shard, x);
}

void shard_host_state::perform(std::uint32_t shard, copy&,
                               parameter_server::send_in_sync& x) {
  backups_->send(shard, x);
}

void shard_host_state::perform(std::uint32_t shard, copy&,
                               parameter_server::protocol_error& x) {
  // Others have the state of this process, if there is one.
  self->quit(caf::make_error(ec::protocol, "shard " + std::to_string(shard)
                                             + ": " + x.reason));
}

void shard_host_state::on_link(const host_link& x) {
  if (backups_->on_link(x))
    on_interval();
}

void shard_host_state::on_down(const caf::actor_addr& source) {
  backups_->on_down(source);
}

void shard_host_state::on_interval() {
  const auto now = self->clock().now();
  while (!awaited_tables_.empty()
         && now - awaited_tables_.front().first > table_timeout) {
    awaited_tables_.front().second.deliver(table_); // the client asks again
    awaited_tables_.pop_front();
  }
  for (std::uint32_t i = 0; i < copies_.size(); ++i)
    perform(i, copies_[i].machine.on_timeout());
}

stored shard_host_state::on(const copy_record& x, const tensors& operands) {
  stored_ = {};
  if (auto* const at = find(x.shard))
    perform(x.shard, at->machine.on(x.record, payload_of(x, operands)));
  return stored_;
}

stored shard_host_state::on(const copy_snapshot& x, const tensors& beside) {
  stored_ = {};
  auto* const at = find(x.shard);
  if (!at || x.snapshot.view_id != at->machine.view_id())
    return stored_;
  shard_store made{x.shard};
  std::vector<payload> waiting;
  try {
    made.restore(x.image, beside_image(x, beside, waiting), x.snapshot.current);
    for (const auto& client : x.snapshot.clients)
      for (const auto number : client.done)
        if (!made.has_answer({client.client, number}))
          throw std::invalid_argument(
            "the snapshot of a shard: the answer to command "
            + std::to_string(number) + " of client "
            + std::to_string(client.client) + " is missing");
  } catch (const std::logic_error& e) {
    log(log_level::error, e.what());
    return stored_;
  }
  auto effects = at->machine.on(x.snapshot, waiting);
  for (const auto& one : effects)
    if (std::holds_alternative<install_snapshot>(one))
      at->store.take(std::move(made));
  perform(x.shard, std::move(effects));
  return stored_;
}

stored shard_host_state::on(const copy_inquiry& x) {
  stored_ = {};
  if (auto* const at = find(x.shard))
    perform(x.shard, at->machine.on(x.inquire));
  return stored_;
}

stored shard_host_state::on(const copy_in_sync& x) {
  stored_ = {};
  if (auto* const at = find(x.shard))
    perform(x.shard, at->machine.on(x.in_sync));
  return stored_;
}

shard_host_internal_actor::behavior_type
shard_host(shard_host_internal_actor::stateful_pointer<shard_host_state> self,
           shard_host_config config) {
  install_exception_handler(self);
  self->state.configure(std::move(config));
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->state.on_down(x.source); });
  self->delayed_send(self, check_interval, atom::wake_v);
  return {
    [self](const shard_request& x, const tensors& operands) {
      return self->state.request(x, operands);
    },
    [self](const shard_push& x, const tensors& operands) {
      return self->state.push(x, operands);
    },
    [self](const shard_pull& x, const tensors& rows) {
      return self->state.pull(x, rows);
    },
    [self](const shard_accepted& x) { return self->state.accept(x); },
    [self](const shard_decision& x) { return self->state.decide(x); },
    [self](const shard_decision_query& x) { return self->state.query(x); },
    [self](atom::next, std::uint64_t version) {
      return self->state.next_table(version);
    },
    [self](const copy_table& x, std::uint64_t poll) {
      return self->state.enter(x, poll);
    },
    [self](const copy_record& x, const tensors& operands) {
      return self->state.on(x, operands);
    },
    [self](const copy_snapshot& x, const tensors& beside) {
      return self->state.on(x, beside);
    },
    [self](const copy_inquiry& x) { return self->state.on(x); },
    [self](const copy_in_sync& x) { return self->state.on(x); },
    [self](const host_link& x) { self->state.on_link(x); },
    [self](atom::wake) {
      self->state.on_interval();
      self->delayed_send(self, check_interval, atom::wake_v);
    },
  };
}

shard_host_actor::behavior_type
shard_host_access(shard_host_actor::pointer self,
                  const shard_host_actor& target) {
  install_exception_handler(self);
  self->monitor(target);
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->quit(x.reason); });
  // The address: a handle in the actor would keep the host alive.
  const auto to = [address = target.address()] {
    return caf::actor_cast<shard_host_actor>(address);
  };
  return {
    [=](const shard_request& x, const tensors& operands) {
      return self->delegate(to(), x, operands);
    },
    [=](const shard_push& x, const tensors& operands) {
      return self->delegate(to(), x, operands);
    },
    [=](const shard_pull& x, const tensors& rows) {
      return self->delegate(to(), x, rows);
    },
    [=](const shard_accepted& x) { return self->delegate(to(), x); },
    [=](const shard_decision& x) { return self->delegate(to(), x); },
    [=](const shard_decision_query& x) { return self->delegate(to(), x); },
    [=](atom::next, std::uint64_t version) {
      return self->delegate(to(), atom::next_v, version);
    },
    [=](const copy_table& x, std::uint64_t poll) {
      return self->delegate(to(), x, poll);
    },
    [=](const copy_record& x, const tensors& operands) {
      return self->delegate(to(), x, operands);
    },
    [=](const copy_snapshot& x, const tensors& beside) {
      return self->delegate(to(), x, beside);
    },
    [=](const copy_inquiry& x) { return self->delegate(to(), x); },
    [=](const copy_in_sync& x) { return self->delegate(to(), x); },
  };
}

} // namespace troupe
