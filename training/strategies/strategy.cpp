#include "troupe/training/strategies/strategy.hpp"

#include "troupe/tensors/context.hpp"
#include "troupe/training/strategies/calls/job_failure.hpp"
#include "troupe/training/strategies/calls/loop_call.hpp"
#include "troupe/training/strategies/calls/misuse.hpp"
#include "troupe/training/strategies/distributed_dataset.hpp"
#include "troupe/training/strategies/local_strategies.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"
#include "troupe/training/strategies/training_loop.hpp"

#include <stdexcept>

namespace troupe {

// -- execution scope ----------------------------------------------------------

const execution_scope* current_execution_scope() {
  return static_cast<const execution_scope*>(current_context().execution_scope);
}

execution_scope_guard::execution_scope_guard(const execution_scope& scope)
  : previous_{std::exchange(current_context().execution_scope, &scope)} {}

execution_scope_guard::~execution_scope_guard() {
  current_context().execution_scope = previous_;
}

namespace {

/// Replica context of code that runs while no strategy is in scope.
class default_replica_context final : public replica_context {
public:
  default_replica_context() : replica_context{0, 1} {}

private:
  void start_sum(std::uint32_t, const tensor& x) override {
    started_.push_back(x);
  }
  tensor finish_sum(std::uint32_t) override {
    auto x = started_.front();
    started_.erase(started_.begin());
    return x;
  }
  tensors gather(std::uint32_t, const tensor& x) override {
    return tensors(1, x);
  }
  pooled<std::uint64_t> wait_at_barrier(std::uint32_t,
                                        std::uint64_t value) override {
    return pooled<std::uint64_t>(1, value);
  }

  tensors started_; ///< Inputs of the started sums, in order.
};

} // namespace

// -- scope --------------------------------------------------------------------

struct strategy_scope::impl {
  explicit impl(const execution_scope& scope)
    : scope{scope}, guard{this->scope} {}
  execution_scope scope;
  execution_scope_guard guard;
};

strategy_scope::strategy_scope(std::shared_ptr<strategy_state> state) {
  const bool is_default = state->is_default;
  if (const auto* current = current_execution_scope()) {
    if (current->replica)
      throw_misuse("scope()",
                   "in a replica's function; call it outside of run()");
    if (current->strategy != state)
      throw std::logic_error(
        is_default ? "the default strategy cannot be nested in the scope of "
                     "the "
                       + current->strategy->name + " strategy"
                   : "the scope of the " + state->name
                       + " strategy cannot be nested in that of another, the "
                       + current->strategy->name + " strategy");
  }
  if (!is_default) // The default strategy is current without a scope.
    impl_ = std::make_unique<impl>(execution_scope{std::move(state), nullptr});
}

strategy_scope::~strategy_scope() = default;
strategy_scope::strategy_scope(strategy_scope&&) noexcept = default;

strategy get_strategy() {
  const auto* current = current_execution_scope();
  return current ? strategy{current->strategy} : default_strategy{};
}

bool has_strategy() {
  const auto* current = current_execution_scope();
  return current && !current->strategy->is_default;
}

replica_context* get_replica_context() {
  if (const auto* current = current_execution_scope())
    return current->replica;
  static thread_local default_replica_context one;
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

std::uint32_t strategy::workers() const {
  return state_->placement.job.processes();
}

const std::string& strategy::transport() const {
  return state_->transport;
}

std::uint32_t strategy::worker() const {
  return state_->placement.process;
}

const std::vector<std::uint32_t>& strategy::local_replica_ids() const {
  return state_->placement.replicas();
}

strategy_scope strategy::scope() const {
  return strategy_scope{state_};
}

void strategy::check_cross_replica(const char* operation) const {
  if (const auto* current = current_execution_scope();
      current && current->replica)
    throw_misuse(operation,
                 "in a replica's function; use the replica_context's "
                 "all_reduce or all_gather there");
}

void strategy::run_step(const std::function<void(replica_context&)>& fn,
                        const std::shared_ptr<step_results>& results) const {
  make_step(state_, fn, results);
}

std::uint64_t strategy::runs() const {
  return state_->runs;
}

tensor strategy::reduce(reduce_op op, const per_replica<tensor>& values) const {
  check_cross_replica("reduce");
  if (!state_->spans_processes())
    return troupe::reduce(op, values.values());
  for (const auto& one : values)
    check_reducible(op, one);
  return make_collective(state_, "reduce", [op, values](replica_context& self) {
    return self.all_reduce(
      op, values.value_for(self.replica_id(), "reduce").to({}));
  });
}

tensor strategy::reduce(reduce_op op, const per_replica<tensor>& values,
                        const axes& over) const {
  check_cross_replica("reduce");
  if (!state_->spans_processes())
    return troupe::reduce(op, values.values(), over);
  if (over.size() == 0)
    return reduce(op, values);
  return make_collective(
    state_, "reduce", [op, values, over](replica_context& self) {
      const partial_sum partial{
        op, values.value_for(self.replica_id(), "reduce"), over};
      tensors both;
      both.push_back(partial.sum);
      both.push_back(tensor::full({}, partial.elements, dtype::float64));
      both = self.all_reduce(sum, both);
      return op == mean ? divide_elements(both[0], both[1].item<double>())
                        : both[0];
    });
}

tensor strategy::reduce(reduce_op op, const tensor& value) const {
  check_cross_replica("reduce");
  throw_if_excluded(*state_);
  if (op == sum && num_replicas_in_sync() > 1)
    throw std::logic_error("the value " + to_string(value.spec())
                           + " is not per replica: its sum over "
                           + std::to_string(num_replicas_in_sync())
                           + " replicas is not defined");
  return value.to({});
}

tensor strategy::gather(const per_replica<tensor>& values, int axis) const {
  check_cross_replica("gather");
  for (const auto& one : values)
    check_unrecorded(one);
  if (!state_->spans_processes())
    return concatenate(values.values(), axis);
  return make_collective(
    state_, "gather", [values, axis](replica_context& self) {
      return self.all_gather(
        values.value_for(self.replica_id(), "gather").to({}), axis);
    });
}

distributed_dataset
strategy::distribute(data::dataset batches,
                     std::vector<std::uint32_t> replica_shares) const {
  throw_if_excluded(*state_);
  return {*this, std::move(batches), std::move(replica_shares)};
}

training_loop strategy::loop(std::string name,
                             const distributed_dataset& batches,
                             const loop_options& options) const {
  check_cross_replica("loop");
  throw_if_excluded(*state_);
  return {*this, std::move(name), batches, options};
}

} // namespace troupe
