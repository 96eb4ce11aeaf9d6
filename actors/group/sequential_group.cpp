#include "troupe/actors/group/sequential_group.hpp"

#include "troupe/actors/group/cooperative_group.hpp"

#include <algorithm>

namespace troupe {

void throw_bucket_error(const char* what, std::uint32_t bucket,
                        const char* reason) {
  throw std::logic_error(what + std::to_string(bucket) + reason);
}

namespace {

// A group of one replica. A step is a plain function call, and the sum of a
// bucket is the contribution itself.

class single_replica_context final : public step_context {
public:
  void contribute(std::uint32_t bucket, const tensor& contribution) override {
    if (find(bucket) != inputs.end())
      throw_bucket_error("bucket ", bucket,
                         " was contributed to twice in a step");
    inputs.push_back({bucket, contribution});
  }

  tensor sum(std::uint32_t bucket) override {
    const auto it = find(bucket);
    if (it == inputs.end())
      throw_bucket_error("the sum of bucket ", bucket,
                         " was requested before a contribution to it");
    return it->value;
  }

  tensors gather(std::uint32_t, const tensor& contribution) override {
    return tensors(1, contribution);
  }

  void begin_update() override {}

  struct input {
    std::uint32_t bucket;
    tensor value;
  };
  pooled<input> inputs;

private:
  pooled<input>::iterator find(std::uint32_t bucket) {
    return std::ranges::find(inputs, bucket, &input::bucket);
  }
};

class single_replica_group final : public sequential_group {
public:
  using sequential_group::sequential_group;

protected:
  void run_step(const step_function& fn, std::uint64_t step,
                std::uint64_t generation) override {
    prepare(context_, options_, 0, step);
    prepare(step_, options_, 0, step, generation);
    step_.inputs.clear();
    const context_scope inside{context_};
    fn(step_);
    step_.inputs.clear();
    reports_[0] = step_.report;
  }

  context& context_of(std::uint32_t) override { return context_; }

private:
  context context_;
  single_replica_context step_;
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
