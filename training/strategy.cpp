#include "troupe/training/strategy.hpp"

#include "troupe/tensors/context.hpp"
#include "troupe/training/distributed_dataset.hpp"
#include "troupe/training/local_strategies.hpp"
#include "troupe/training/strategy_state.hpp"

#include <cassert>
#include <exception>
#include <mutex>
#include <stdexcept>

namespace troupe {

// -- places -------------------------------------------------------------------

const place_in_job* current_place() {
  return static_cast<const place_in_job*>(current_context().place);
}

place_scope::place_scope(const place_in_job& x)
  : before_{std::exchange(current_context().place, &x)} {}

place_scope::~place_scope() {
  current_context().place = before_;
}

namespace {

/// The replica that code is where no strategy is in scope.
class only_replica final : public replica_context {
public:
  only_replica() : replica_context{0, 1} {}

private:
  void start_sum(std::uint32_t, const tensor& x) override { x_.push_back(x); }
  tensor finish_sum(std::uint32_t) override {
    auto x = x_.front();
    x_.erase(x_.begin());
    return x;
  }
  tensors gather(std::uint32_t, const tensor& x) override {
    return tensors(1, x);
  }

  tensors x_; ///< Started, in order.
};

/// A replica in a step of a crew.
class crew_replica final : public replica_context {
public:
  explicit crew_replica(step_context& at)
    : replica_context{at.replica, at.replicas}, at_{at} {}

private:
  void start_sum(std::uint32_t number, const tensor& x) override {
    at_.contribute(number, x);
  }
  tensor finish_sum(std::uint32_t number) override { return at_.sum(number); }
  tensors gather(std::uint32_t number, const tensor& x) override {
    return at_.gather(number, x);
  }

  step_context& at_;
};

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw std::logic_error(what + " was called " + why);
}

} // namespace

namespace {

struct working_flag {
  explicit working_flag(std::atomic<bool>& it) : it{it} {}
  ~working_flag() { it = false; }
  std::atomic<bool>& it;
};

} // namespace

std::uint64_t run_work(const std::shared_ptr<strategy_state>& on,
                       const work& x) {
  if (const auto* place = current_place(); place && place->replica)
    refuse("work of a strategy", "in a replica's function: a step cannot run "
                                 "another one inside it");
  if (on->working.exchange(true))
    refuse("work of the " + on->name + " strategy",
           "while other work of it runs; a strategy does one thing at a time");
  const working_flag flag{on->working};
  struct shared_state { // a replica that is stuck may outstay this call
    std::mutex lock;
    std::vector<std::exception_ptr> errors; ///< By replica.
  };
  const auto shared = std::make_shared<shared_state>();
  shared->errors.resize(on->replicas);
  auto placed = x;
  // Weak: replicas keep the function, and the strategy owns the replicas.
  placed.step = [owner = std::weak_ptr{on}, shared,
                 fn = x.step](step_context& at) {
    const auto on = owner.lock();
    if (!on)
      throw superseded{};
    crew_replica self{at};
    const place_in_job here{on, &self};
    const place_scope inside{here};
    try {
      fn(at);
    } catch (const superseded&) {
      throw;
    } catch (...) {
      const std::lock_guard hold{shared->lock};
      shared->errors[at.replica] = std::current_exception();
      throw;
    }
  };
  try {
    return on->members->run(placed);
  } catch (...) {
    const std::lock_guard hold{shared->lock};
    for (const auto& error : shared->errors)
      if (error) // as it was thrown, not as the crew tells of it
        std::rethrow_exception(error);
    throw;
  }
}

// -- scope --------------------------------------------------------------------

struct strategy_scope::impl {
  explicit impl(const place_in_job& at) : at{at}, current{this->at} {}
  place_in_job at;
  place_scope current;
};

strategy_scope::strategy_scope(std::shared_ptr<strategy_state> of) {
  const bool is_default = of->is_default;
  if (const auto* place = current_place()) {
    if (place->replica)
      refuse("scope()", "in a replica's function; call it around run()");
    if (place->strategy != of)
      throw std::logic_error(
        is_default ? "the default strategy cannot be nested in the scope of "
                     "the "
                       + place->strategy->name + " strategy"
                   : "the scope of the " + of->name
                       + " strategy cannot be nested in that of another, the "
                       + place->strategy->name + " strategy");
  }
  if (!is_default) // the default strategy is what holds without a scope
    impl_ = std::make_unique<impl>(place_in_job{std::move(of), nullptr});
}

strategy_scope::~strategy_scope() = default;
strategy_scope::strategy_scope(strategy_scope&&) noexcept = default;

strategy get_strategy() {
  const auto* place = current_place();
  return place ? strategy{place->strategy} : default_strategy{};
}

bool has_strategy() {
  const auto* place = current_place();
  return place && !place->strategy->is_default;
}

replica_context* get_replica_context() {
  if (const auto* place = current_place())
    return place->replica;
  static thread_local only_replica one;
  return &one;
}

// -- strategy -----------------------------------------------------------------

const std::string& strategy::name() const {
  return state_->name;
}

std::uint32_t strategy::num_replicas_in_sync() const {
  return state_->replicas;
}

const std::vector<device>& strategy::devices() const {
  return state_->devices;
}

int strategy::threads() const {
  return state_->threads;
}

strategy_scope strategy::scope() const {
  return strategy_scope{state_};
}

void strategy::check_cross_replica(const char* what) const {
  if (const auto* place = current_place(); place && place->replica)
    refuse(what, "in a replica's function; use the replica_context's "
                 "all_reduce or all_gather there");
}

void strategy::run_step(const std::function<void(replica_context&)>& fn) const {
  work one;
  one.first_step = state_->next_step;
  one.step = [&](step_context&) { fn(*get_replica_context()); };
  run_work(state_, one);
  ++state_->next_step;
}

tensor strategy::reduce(reduce_op op, const per_replica<tensor>& x) const {
  check_cross_replica("reduce");
  return troupe::reduce(op, x.values());
}

tensor strategy::reduce(reduce_op op, const per_replica<tensor>& x,
                        axes over) const {
  check_cross_replica("reduce");
  return troupe::reduce(op, x.values(), over);
}

tensor strategy::reduce(reduce_op op, const tensor& x) const {
  check_cross_replica("reduce");
  if (op == sum && num_replicas_in_sync() > 1)
    throw std::logic_error(
      "the value " + to_string(x.spec()) + " is not per replica: its sum over "
      + std::to_string(num_replicas_in_sync()) + " replicas is not defined");
  return x;
}

tensor strategy::gather(const per_replica<tensor>& x, int axis) const {
  check_cross_replica("gather");
  return concatenate(x.values(), axis);
}

distributed_dataset strategy::distribute(data::dataset batches) const {
  return {*this, std::move(batches)};
}

} // namespace troupe
