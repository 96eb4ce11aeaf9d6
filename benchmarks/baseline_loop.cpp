#include "troupe/benchmarks/baseline_loop.hpp"

#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/device_backend.hpp"
#include "troupe/tensors/ops/softmax_cross_entropy.hpp"
#include "troupe/tensors/optim/initializers.hpp"
#include "troupe/tensors/tape.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace troupe::benchmarks {

struct baseline_loop::replica {
  replica(const workload& workload, std::uint64_t batch, std::uint32_t id,
          int threads, const device& on)
    : id{id}, threads{threads}, params{workload.parameters, 1, 1, {on}} {
    for (auto& prepared : synthetic_batches(workload, batch).iterate()) {
      auto& moved = batches.emplace_back(prepared);
      moved.inputs = moved.inputs.to(on);
      moved.labels = moved.labels.to(on);
    }
    const initializer weights{"glorot_uniform"};
    auto values = tensor::zeros(params.values().dims());
    for (std::uint32_t i = 0; i < workload.parameters.size(); ++i)
      if (const auto& dims = workload.parameters[i].dims; dims.rank() > 1)
        weights.fill(values.mutable_data<float>().subspan(params.offset(i),
                                                          dims.elements()),
                     dims, initial_key(1, i));
    params.values().copy_from(values);
    for (std::size_t s = 0; s < workload.rule.slots(); ++s)
      slots.push_back(tensor::zeros(values.dims(), dtype::float32, on));
  }

  std::uint32_t id;
  int threads;
  parameters params;
  std::vector<tensor> slots;
  std::vector<batch> batches;
  std::uint64_t steps_done = 0;
  tensor losses; ///< Losses of the examples of the last step.
};

baseline_loop::baseline_loop(const workload& workload, std::uint64_t batch,
                             std::uint32_t replicas, int threads,
                             gradient_sync sync, const device& on)
  : workload_{workload},
    rule_{rule_for(workload, batch)},
    sync_{sync},
    on_{on},
    sum_barrier_{replicas},
    run_barrier_{replicas + 1} {
  if (!workload.forward)
    throw std::invalid_argument("there is no baseline loop of '"
                                + std::string{workload.name}
                                + "'; use mlp, lenet or wide");
  for (std::uint32_t id = 0; id < replicas; ++id)
    replicas_.push_back(
      std::make_unique<replica>(workload, batch, id, threads, on));
  sum_ = tensor::zeros(replicas_[0]->params.values().dims());
  for (auto& one : replicas_)
    threads_.emplace_back([this, &one] { run_replica(*one); });
}

baseline_loop::~baseline_loop() {
  steps_ = 0;
  run_barrier_.arrive_and_wait();
}

void baseline_loop::run(std::uint64_t steps) {
  if (steps == 0)
    return;
  steps_ = steps;
  run_barrier_.arrive_and_wait();
  run_barrier_.arrive_and_wait();
}

double baseline_loop::last_loss() const {
  const auto losses = replicas_[0]->losses.to({});
  const auto each = losses.data<float>();
  return kernels().sum(each.data(), each.size()) / double(each.size());
}

void baseline_loop::run_replica(replica& self) {
  context own_context;
  const context_scope in{own_context};
  use_threads(self.threads);
  for (;;) {
    run_barrier_.arrive_and_wait();
    if (steps_ == 0)
      return;
    for (std::uint64_t i = 0; i < steps_; ++i)
      step(self);
    self.losses.to({}); // waits for a device
    run_barrier_.arrive_and_wait();
  }
}

void baseline_loop::step(replica& self) {
  const auto& batch = self.batches[self.steps_done++ % self.batches.size()];
  const auto& variables = self.params.variables();
  {
    tape t;
    const auto losses = softmax_cross_entropy(
      workload_.forward(variables, batch.inputs), batch.labels);
    self.losses = losses.detach();
    t.gradient_into_variables(losses, variables);
  }
  auto gradient = self.params.gradients();
  auto examples = batch.inputs.dims()[0];
  if (sync_ == gradient_sync::sums && replicas_.size() > 1) {
    sum(self);
    gradient = sum_;
    examples *= std::int64_t(replicas_.size());
  }
  if (on_.kind != device_kind::cpu)
    return update_on_device(self, gradient, examples);
  std::array<std::span<float>, 2> slots;
  for (std::size_t s = 0; s < self.slots.size(); ++s)
    slots[s] = self.slots[s].mutable_data<float>();
  auto values = self.params.values();
  rule_.apply(values.mutable_data<float>(), gradient.data<float>(),
              std::span{slots}.first(self.slots.size()), self.steps_done,
              rule_.learning_rate(), 1 / float(examples));
}

void baseline_loop::update_on_device(replica& self, const tensor& gradient,
                                     std::int64_t examples) {
  const auto address = [](const tensor& x) {
    return reinterpret_cast<float*>(x.address());
  };
  std::array<float*, 2> slots{};
  for (std::size_t s = 0; s < self.slots.size(); ++s)
    slots[s] = address(self.slots[s]);
  const auto update =
    rule_.step_at(self.steps_done, rule_.learning_rate(), 1 / float(examples));
  backend_of(on_).update(on_, update.coefficients(),
                         address(self.params.values()), address(gradient),
                         slots, gradient.size(), nullptr);
}

void baseline_loop::sum(replica& self) {
  const auto count = replicas_.size();
  const auto begin = sum_.size() * self.id / count / 16 * 16;
  const auto end = self.id + 1 == count
                     ? sum_.size()
                     : sum_.size() * (self.id + 1) / count / 16 * 16;
  const auto gradient_of = [&](std::size_t id) {
    return replicas_[id]->params.gradients().data<float>().data() + begin;
  };
  auto* target = sum_.mutable_data<float>().data() + begin;
  sum_barrier_.arrive_and_wait();
  kernels().add(target, gradient_of(0), gradient_of(1), end - begin);
  for (std::size_t id = 2; id < count; ++id)
    kernels().add_into(target, gradient_of(id), end - begin);
  sum_barrier_.arrive_and_wait();
}

} // namespace troupe::benchmarks
