#include "troupe/actors/group/sequential_group.hpp"

#include "troupe/actors/collectives/backend_step_context.hpp"
#include "troupe/actors/collectives/sequential_backend.hpp"
#include "troupe/actors/group/cooperative_group.hpp"
#include "troupe/tensors/flush_denormals.hpp"

namespace troupe {

namespace {

/// Step context of the only replica of a group. No collective waits.
class single_replica_context final : public backend_step_context {
public:
  using backend_step_context::backend_step_context;

private:
  void wait_for(const wait_condition&) override {}
};

/// A group of one replica, which is not on a fiber: a step is a function call.
class single_replica_group final : public sequential_group {
public:
  using sequential_group::sequential_group;

protected:
  void run_step(const step_function& fn, std::uint64_t step,
                std::uint64_t generation) override {
    prepare(context_, options_, 0, step);
    prepare(step_, options_, 0, step, generation);
    collectives_->end_step();
    collectives_->begin_step(generation, step);
    const context_scope inside{context_};
    const flush_denormals flushing;
    position_->enter(0);
    fn(step_);
    collectives_->end_step();
    reports_[0] = step_.report;
  }

  context& context_of(std::uint32_t) override { return context_; }

private:
  context context_;
  std::shared_ptr<sequential_collectives> collectives_ =
    std::make_shared<sequential_collectives>(1);
  single_replica_context step_{
    std::make_shared<sequential_backend>(collectives_, 0)};
};

} // namespace

std::unique_ptr<replica_group>
make_sequential_group(const replica_group_options& options) {
  check(options);
  if (options.replicas == 1)
    return std::make_unique<single_replica_group>(options);
  return make_cooperative_group(options);
}

} // namespace troupe
