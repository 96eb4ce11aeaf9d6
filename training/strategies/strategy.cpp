#include "troupe/training/strategies/strategy.hpp"

#include "troupe/tensors/context.hpp"
#include "troupe/training/strategies/distributed_dataset.hpp"
#include "troupe/training/strategies/local_strategies.hpp"
#include "troupe/training/strategies/strategy_state.hpp"

#include <stdexcept>

namespace troupe {

// -- execution scope ----------------------------------------------------------

const place_in_job* current_place() {
  return static_cast<const place_in_job*>(current_context().place);
}

place_scope::place_scope(const place_in_job& x)
  : before_{std::exchange(current_context().place, &x)} {}

place_scope::~place_scope() {
  current_context().place = before_;
}

namespace {

/// The replica of code that runs while no strategy is in scope.
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

  tensors x_; ///< Started sums, in order.
};

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw std::logic_error(what + " was called " + why);
}

} // namespace

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
      refuse("scope()", "in a replica's function; call it outside of run()");
    if (place->strategy != of)
      throw std::logic_error(
        is_default ? "the default strategy cannot be nested in the scope of "
                     "the "
                       + place->strategy->name + " strategy"
                   : "the scope of the " + of->name
                       + " strategy cannot be nested in that of another, the "
                       + place->strategy->name + " strategy");
  }
  if (!is_default) // Without a scope the default strategy is current.
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

std::uint32_t strategy::workers() const {
  return state_->here.processes;
}

const std::string& strategy::transport() const {
  return state_->transport;
}

std::uint32_t strategy::worker() const {
  return state_->here.process;
}

std::uint32_t strategy::first_local_replica() const {
  return state_->here.first;
}

std::uint32_t strategy::local_replicas() const {
  return state_->here.count;
}

strategy_scope strategy::scope() const {
  return strategy_scope{state_};
}

void strategy::check_cross_replica(const char* what) const {
  if (const auto* place = current_place(); place && place->replica)
    refuse(what, "in a replica's function; use the replica_context's "
                 "all_reduce or all_gather there");
}

/// The step number of random numbers counts runs, not steps of the group:
/// `reduce` takes a step in a job of several processes, and none in one.
void strategy::run_step(const std::function<void(replica_context&)>& fn) const {
  run_once(state_, [fn, number = state_->runs](replica_context& self) {
    current_context().random.step = number;
    fn(self);
  });
  ++state_->runs;
}

/// Returns a value that `fn` computes equally on all replicas. `fn` owns what
/// it uses.
tensor
strategy::together(const std::function<tensor(replica_context&)>& fn) const {
  const auto out = std::make_shared<tensor>();
  run_once(state_,
           [fn, out, first = state_->here.first](replica_context& self) {
             auto mine = fn(self);
             if (self.replica_id() == first)
               *out = std::move(mine);
           });
  return *out;
}

tensor strategy::reduce(reduce_op op, const per_replica<tensor>& x) const {
  check_cross_replica("reduce");
  if (workers() == 1)
    return troupe::reduce(op, x.values());
  for (const auto& one : x)
    check_reducible(op, one);
  return together([op, x](replica_context& self) {
    return self.all_reduce(op, x[self.replica_id()]);
  });
}

tensor strategy::reduce(reduce_op op, const per_replica<tensor>& x,
                        axes over) const {
  check_cross_replica("reduce");
  if (workers() == 1)
    return troupe::reduce(op, x.values(), over);
  if (over.size() == 0)
    return reduce(op, x);
  return together(
    [op, x, list = std::vector<int>{over}](replica_context& self) {
      const sum_along mine{op, x[self.replica_id()], list};
      tensors both;
      both.push_back(mine.sum);
      both.push_back(tensor::full({}, mine.elements, dtype::float64));
      both = self.all_reduce(sum, both);
      return op == mean ? divided(both[0], both[1].item<double>()) : both[0];
    });
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
  for (const auto& one : x)
    check_unrecorded(one);
  if (workers() == 1)
    return concatenate(x.values(), axis);
  return together([x, axis](replica_context& self) {
    return self.all_gather(x[self.replica_id()], axis);
  });
}

distributed_dataset strategy::distribute(data::dataset batches) const {
  return {*this, std::move(batches)};
}

} // namespace troupe
