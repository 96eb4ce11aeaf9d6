#include "troupe/actors/coordinator/closure_worker.hpp"

#include "troupe/actors/coordinator/remote_batch.hpp"
#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/step.hpp"
#include "troupe/actors/protocol/closure_owner.hpp"
#include "troupe/actors/remoting/message_codec.hpp"

#include <caf/sec.hpp>

#include <algorithm>
#include <atomic>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace troupe {

namespace {

/// The beginning of a sentence about a shard.
std::string server_text(std::uint32_t shard) {
  return "parameter server " + std::to_string(shard) + ": ";
}

job_error failed_request(std::uint32_t shard, const caf::error& why,
                         caf::actor_system& system) {
  auto found = wire::to_wire(why, system);
  // The loss of a server ends all requests. Its text names the server.
  if (found.code == ec::peer_lost && found.text.starts_with("parameter server"))
    return {found.code, std::move(found.text)};
  return {found.code, server_text(shard) + found.text};
}

} // namespace

/// The environment of an execution at its worker.
class worker_environment final
  : public closure_environment,
    public closure_owner,
    public std::enable_shared_from_this<worker_environment> {
public:
  worker_environment(closure_worker_state& state,
                     closure_worker_state::slot& on, shared_closure what)
    : state_{state}, slot_{on}, what_{std::move(what)} {}

  std::vector<tensor> pull(std::span<const read> parts) override {
    check_stopped();
    values_.assign(parts.size(), {});
    begin_wait(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i)
      request(parts[i], i);
    await_answers();
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (makes_own_changes(parts[i]))
        values_[i] = with_own_changes(parts[i], std::move(values_[i]));
    return std::exchange(values_, {});
  }

  std::vector<step_values> pull_step(std::span<const step_pull> all) override {
    return push_step({}, all);
  }

  std::vector<step_values> push_step(std::span<const step_push> all,
                                     std::span<const step_pull> next) override {
    check_stopped();
    step_values_.assign(next.size(), {});
    begin_wait(all.size() + next.size());
    request_all(all);
    request_all(next);
    await_answers();
    return std::exchange(step_values_, {});
  }

  void report(tensors what) override {
    check_stopped();
    if (batch_bytes(what) > max_report_bytes)
      throw std::logic_error(
        "a closure reports " + std::to_string(batch_bytes(what))
        + " bytes; the limit is " + std::to_string(max_report_bytes)
        + ": report less, or return it as the result");
    for (auto& one : what) // the closure may change its own tensors
      one = one.clone();
    state_.self->send(state_.config.owner, state_.config.id, execution,
                      std::move(what));
  }

  void change(const address& to,
              parameter_server::part_change change) override {
    changes_[to.shard].push_back({to.part, std::move(change)});
  }

  bool is_stopped() const override {
    return *state_.config.ending
           || what_->stopped_attempts >= execution.attempt;
  }

  const shared_attempt& counted_attempt() const override {
    return what_->counted_attempt;
  }

  void at_failure(std::function<void()> fn) override {
    at_failure_.push_back(std::move(fn));
  }

  std::string_view servers() const override { return state_.config.servers; }

  void call_at_failure() {
    for (const auto& [training, replica] : replicas_)
      state_.self->send(state_.config.router, atom::release_v, training,
                        replica, execution);
    for (const auto& fn : std::exchange(at_failure_, {}))
      fn();
  }

  /// What the closure has changed, by shard.
  const std::map<std::uint32_t, std::vector<addressed_change>>&
  changes() const {
    return changes_;
  }

private:
  /// Begins to wait for requests. Answers to earlier ones have no effect.
  void begin_wait(std::size_t requests) {
    ++wait_;
    unanswered_ = requests;
  }

  /// Waits until all requests are answered, or one has failed.
  void await_answers() {
    while (unanswered_ > 0)
      fiber::park();
    check_stopped();
    if (failure_)
      throw job_error{*std::exchange(failure_, {})};
  }

  /// Sends the requests of a replica.
  template <class Request>
  void request_all(std::span<const Request> all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      replicas_.insert({all[i].what.training, replica_of(all[i])});
      auto one = all[i];
      one.what.by = execution;
      request(one, i);
    }
  }
  static std::uint32_t replica_of(const step_pull& x) { return x.what.replica; }
  static std::uint32_t replica_of(const step_push& x) {
    return x.what.id.replica;
  }

  /// A pull waits for other replicas without a limit. The router looks after
  /// the shards, so it is only asked again.
  void request(const step_pull& x, std::size_t i) {
    state_.self
      ->request(state_.config.router, state_.config.timeout, x.what, x.rows)
      .then(
        [me = weak_from_this(), wait = wait_,
         i](parameter_server::pulled& answer, tensors& values) {
          if (const auto self = me.lock())
            self->on_answer(wait, [&] {
              self->step_values_[i] = {std::move(answer), std::move(values)};
            });
        },
        [me = weak_from_this(), wait = wait_, i, x](const caf::error& e) {
          const auto self = me.lock();
          if (self && e == caf::sec::request_timeout && self->is_waiting(wait))
            return self->request(x, i);
          fail_later(me, wait, x.what.shard, e);
        });
  }

  void request(const step_push& x, std::size_t) {
    state_.self
      ->request(state_.config.router, state_.config.timeout, x.what, x.gradient)
      .then(
        [me = weak_from_this(), wait = wait_](parameter_server::push_result) {
          if (const auto self = me.lock())
            self->on_answer(wait, [] {});
        },
        [me = weak_from_this(), wait = wait_, shard = x.what.shard](
          const caf::error& e) { fail_later(me, wait, shard, e); });
  }

  /// A shard has not done what an execution has asked. The execution does not
  /// wait for the other shards, because some answers can take any time.
  static void fail_later(const std::weak_ptr<worker_environment>& me,
                         std::uint64_t wait, std::uint32_t shard,
                         const caf::error& why) {
    if (const auto self = me.lock())
      self->on_answer(wait, [&] {
        self->failure_ =
          failed_request(shard, why, self->state_.self->system());
        self->unanswered_ = 1;
      });
  }

  /// The execution ends here if its result will not be used.
  void check_stopped() const {
    if (is_stopped())
      throw superseded{};
  }

  /// What this execution has changed of a part so far.
  std::vector<addressed_change> own_changes(const address& of) const {
    std::vector<addressed_change> out;
    if (const auto own = changes_.find(of.shard); own != changes_.end())
      for (const auto& one : own->second)
        if (one.part == of.part)
          out.push_back(one);
    return out;
  }

  /// True if the value of the shard and the own changes are enough to make what
  /// a read returns. Then the shard neither gets the operands nor copies its
  /// value. It has the state of optimizers, and knows which rows it keeps.
  bool makes_own_changes(const read& from) const {
    return !from.rows && !from.is_table
           && std::ranges::all_of(
             own_changes(from), [](const addressed_change& x) {
               return x.change.changes_elements_by_operand();
             });
  }

  /// Makes the own changes of a part.
  /// @errors throws `job_error`, as if the shard had rejected one.
  tensor with_own_changes(const address& of, tensor value) const {
    const auto changes = own_changes(of);
    if (changes.empty())
      return value;
    if (!value)
      throw job_error{ec::protocol,
                      server_text(of.shard) + "it sent no value of a variable"};
    try {
      parameter_server::stored_part part{std::move(value)};
      for (const auto& one : changes)
        part.apply(one.change);
      return part.value();
    } catch (const std::logic_error& e) {
      throw job_error{ec::invalid, server_text(of.shard) + e.what()};
    }
  }

  void request(const read& from, std::size_t i) {
    auto encoded =
      encode(makes_own_changes(from) ? std::vector<addressed_change>{}
                                     : own_changes(from));
    if (from.rows)
      encoded.operands.insert(encoded.operands.begin(), from.rows);
    // An answer may come after the end of the execution.
    state_.self
      ->request(state_.config.router, state_.config.timeout, from.shard,
                part_pull{from.part, static_cast<bool>(from.rows),
                          std::move(encoded.list), true, execution},
                std::move(encoded.operands))
      .then(
        [me = weak_from_this(), wait = wait_, i](tensor& x) {
          if (const auto self = me.lock())
            self->on_answer(wait, [&] { self->values_[i] = std::move(x); });
        },
        [me = weak_from_this(), wait = wait_, shard = from.shard](
          const caf::error& e) { fail_later(me, wait, shard, e); });
  }

  /// True if the execution still waits in this wait.
  bool is_waiting(std::uint64_t wait) const {
    return is_executed() && wait == wait_ && unanswered_ > 0;
  }

  template <class F>
  void on_answer(std::uint64_t wait, F keep) {
    if (!is_waiting(wait))
      return;
    keep();
    if (--unanswered_ == 0)
      state_.resume(slot_);
  }

  /// False: the execution has ended.
  bool is_executed() const { return slot_.environment.get() == this; }

  closure_worker_state& state_;
  closure_worker_state::slot& slot_;
  const shared_closure what_;
  std::map<std::uint32_t, std::vector<addressed_change>> changes_;
  std::vector<std::function<void()>> at_failure_;
  std::vector<tensor> values_; ///< Answers to a pull.
  std::vector<step_values> step_values_;
  /// Trainings and replicas of pulls and pushes.
  std::set<std::pair<std::uint64_t, std::uint32_t>> replicas_;
  std::uint64_t wait_ = 0;     ///< Counts the waits for shards.
  std::size_t unanswered_ = 0; ///< Requests of this wait.
  std::optional<job_error> failure_;
};

closure_worker_state::closure_worker_state(closure_worker_actor::pointer self)
  : self{self} {}

closure_worker_state::~closure_worker_state() {
  if (config.ending)
    *config.ending = true;
  for (const auto& on : slots)
    if (on->environment) { // a closure that waits ends here
      const closure_scope scope{*on->environment};
      on->body.reset();
      on->environment->call_at_failure();
    }
  for (auto& [which, one] : stores)
    one.environment->call_at_failure();
}

void closure_worker_state::configure(closure_worker_config how) {
  static std::atomic<std::uint64_t> made{0};
  config = std::move(how);
  worker_id = ++made;
  for (std::uint32_t i = 0; i < config.interleaved; ++i)
    add_slot(false);
}

closure_worker_state::slot& closure_worker_state::add_slot(bool is_extra) {
  auto& on = *slots.emplace_back(std::make_unique<slot>());
  on.is_extra = is_extra;
  on.body = std::make_unique<fiber>(&on.own_context);
  return on;
}

// -- messages -----------------------------------------------------------------

void closure_worker_state::on_run(const coordinator::run& received,
                                  shared_closure what) {
  if (!begun.begin(received))
    return;
  queue.push_back({received, std::move(what)});
  begin_later();
}

closure_worker_state::slot*
closure_worker_state::find_free_slot(bool is_extra) const {
  const auto found = std::ranges::find_if(slots, [&](const auto& on) {
    return !on->current && on->is_extra == is_extra;
  });
  return found == slots.end() ? nullptr : found->get();
}

std::deque<closure_worker_state::waiting_closure>::iterator
closure_worker_state::find_next() {
  const bool is_free = find_free_slot(false);
  return std::ranges::find_if(queue, [&](const waiting_closure& x) {
    return is_free || x.run.waits_for_others;
  });
}

/// A `cancel` that has arrived takes effect before the closure begins.
void closure_worker_state::begin_later() {
  if (next_pending || find_next() == queue.end())
    return;
  next_pending = true;
  self->send(self, atom::next_v);
}

void closure_worker_state::on_cancel(const coordinator::cancel& received) {
  begun.on(received);
  const auto is_it = [&](const waiting_closure& x) {
    return x.run.execution == received.execution;
  };
  for (const auto& on : slots) {
    if (!on->current || !is_it(*on->current))
      continue;
    on->current->what->stopped_attempts = received.execution.attempt;
    { // the closure waits for a shard
      const closure_scope scope{*on->environment};
      on->body->abort();
    }
    return end_execution(*on);
  }
  std::erase_if(queue, is_it);
  if (auto stopped = stores.extract(received.execution))
    stopped.mapped().environment->call_at_failure();
  report_stopped(received.execution);
}

void closure_worker_state::begin_next() {
  next_pending = false;
  const auto found = find_next();
  if (found == queue.end())
    return;
  const bool is_extra = found->run.waits_for_others;
  auto* const free = find_free_slot(is_extra);
  auto* const on = free ? free : &add_slot(is_extra);
  const auto& next = on->current.emplace(std::move(*found));
  queue.erase(found);
  const auto& execution = next.run.execution;
  on->environment = std::make_shared<worker_environment>(*this, *on, next.what);
  on->environment->worker = config.number;
  on->environment->worker_id = worker_id;
  on->environment->execution = execution;
  on->own_context.random = {config.seed, config.number, execution.ordinal, 0};
  on->result.reset();
  on->body->start(
    [on] { on->result = on->current->what->function(*on->environment); });
  resume(*on);
  begin_later();
}

// -- executions ---------------------------------------------------------------

void closure_worker_state::resume(slot& on) {
  use_threads(config.threads);
  {
    const closure_scope scope{*on.environment};
    on.body->resume();
  }
  if (on.body->done())
    end_execution(on);
}

/// The closure has returned, has thrown or was stopped.
void closure_worker_state::end_execution(slot& on) {
  const auto which = on.current->run.execution;
  const bool is_stopped = on.environment->is_stopped();
  const auto thrown = on.body->error();
  if (is_stopped || thrown)
    on.environment->call_at_failure();
  if (is_stopped)
    report_stopped(which);
  else if (thrown)
    fail(which, thrown);
  else
    store_effects(on, std::move(on.result));
  on.environment.reset();
  on.current.reset();
  begin_later();
}

void closure_worker_state::store_effects(const slot& from,
                                         coordinator::payload&& result) {
  const auto& environment = from.environment;
  const auto which = from.current->run.execution;
  auto& one = stores[which];
  one.result = std::move(result);
  one.environment = environment;
  for (const auto& [shard, changes] : environment->changes())
    one.shards.push_back(shard);
  one.unanswered = static_cast<std::uint32_t>(one.shards.size()) + 1;
  for (const auto& [shard, changes] : environment->changes())
    store_at(shard, from.current->run, changes);
  on_stored(which);
}

void closure_worker_state::store_at(
  std::uint32_t shard, const coordinator::run& from,
  const std::vector<addressed_change>& changes) {
  auto encoded = encode(changes);
  const auto which = from.execution;
  self
    ->request(
      config.router, config.timeout, shard,
      execution_effects{which, from.done_below, std::move(encoded.list)},
      std::move(encoded.operands))
    .then([this, which](std::uint64_t) { on_stored(which); },
          [this, which, shard](const caf::error& e) {
            auto one = stores.extract(which);
            if (!one)
              return;
            one.mapped().environment->call_at_failure();
            fail(which, std::make_exception_ptr(
                          failed_request(shard, e, self->system())));
          });
}

void closure_worker_state::on_stored(const coordinator::execution& from) {
  const auto found = stores.find(from);
  if (found == stores.end() || --found->second.unanswered > 0)
    return;
  self->send(config.owner, config.id,
             coordinator::ended{from, std::move(found->second.shards)},
             std::move(found->second.result));
  stores.erase(found);
}

void closure_worker_state::fail(const coordinator::execution& which,
                                std::exception_ptr thrown) {
  self->send(config.owner, config.id, coordinator::failed{which},
             closure_failure{std::move(thrown), config.number});
}

void closure_worker_state::report_stopped(const coordinator::execution& which) {
  self->send(config.owner, config.id, coordinator::stopped{which});
}

closure_worker_actor::behavior_type closure_worker(
  closure_worker_actor::stateful_pointer<closure_worker_state> self,
  closure_worker_config config) {
  install_exception_handler(self);
  self->state.configure(std::move(config));
  return {
    [self](const coordinator::run& x, const shared_closure& what) {
      self->state.on_run(x, what);
    },
    [self](const coordinator::cancel& x) { self->state.on_cancel(x); },
    [self](atom::next) { self->state.begin_next(); },
  };
}

} // namespace troupe
