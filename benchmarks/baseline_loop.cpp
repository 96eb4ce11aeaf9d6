#include "troupe/benchmarks/baseline_loop.hpp"

#include "troupe/tensors/context.hpp"
#include "troupe/tensors/initializers.hpp"
#include "troupe/tensors/kernels.hpp"
#include "troupe/tensors/ops/softmax_cross_entropy.hpp"
#include "troupe/tensors/tape.hpp"

#include <algorithm>
#include <array>

namespace troupe::benchmarks {

struct bare_loop::replica {
  replica(const workload& what, std::uint64_t batch, std::uint32_t id,
          int threads)
    : id{id}, threads{threads}, own{what.parameters} {
    for (auto& x : synthetic_batches(what, batch).iterate())
      batches.push_back(x);
    const initializer weights{"glorot_uniform"};
    auto values = own.values();
    for (std::uint32_t i = 0; i < what.parameters.size(); ++i)
      if (const auto& dims = what.parameters[i].dims; dims.rank() > 1)
        weights.fill(
          values.mutable_data<float>().subspan(own.offset(i), dims.elements()),
          dims, initial_key(1, i));
    for (std::size_t s = 0; s < what.rule.slots(); ++s)
      slots.push_back(tensor::zeros(values.dims()));
  }

  std::uint32_t id;
  int threads;
  parameters own;
  std::vector<tensor> slots;
  std::vector<batch> batches;
  std::uint64_t done = 0;
  double loss = 0;
};

bare_loop::bare_loop(const workload& what, std::uint64_t batch,
                     std::uint32_t replicas, int threads, sharing how)
  : what_{what},
    rule_{rule_for(what, batch)},
    how_{how},
    together_{replicas},
    gate_{replicas + 1} {
  for (std::uint32_t id = 0; id < replicas; ++id)
    replicas_.push_back(std::make_unique<replica>(what, batch, id, threads));
  sum_ = tensor::zeros(replicas_[0]->own.values().dims());
  for (auto& one : replicas_)
    threads_.emplace_back([this, &one] { work(*one); });
}

bare_loop::~bare_loop() {
  steps_ = 0;
  gate_.arrive_and_wait();
}

void bare_loop::run(std::uint64_t steps) {
  if (steps == 0)
    return;
  steps_ = steps;
  gate_.arrive_and_wait();
  gate_.arrive_and_wait();
}

double bare_loop::last_loss() const {
  return replicas_[0]->loss;
}

void bare_loop::work(replica& mine) {
  context own;
  const context_scope in{own};
  use_threads(mine.threads);
  for (;;) {
    gate_.arrive_and_wait();
    if (steps_ == 0)
      return;
    for (std::uint64_t i = 0; i < steps_; ++i)
      step(mine);
    gate_.arrive_and_wait();
  }
}

void bare_loop::step(replica& mine) {
  const auto& batch = mine.batches[mine.done++ % mine.batches.size()];
  const auto& variables = mine.own.variables();
  {
    tape t;
    const auto losses = softmax_cross_entropy(
      what_.forward(variables, batch.inputs), batch.labels);
    const auto each = losses.data<float>();
    mine.loss = kernels().sum(each.data(), each.size()) / double(each.size());
    t.gradient_into_variables(losses, variables);
  }
  auto gradient = mine.own.gradients();
  auto examples = batch.inputs.dims()[0];
  if (how_ == sharing::sums && replicas_.size() > 1) {
    sum(mine);
    gradient = sum_;
    examples *= std::int64_t(replicas_.size());
  }
  std::array<std::span<float>, 2> slots;
  for (std::size_t s = 0; s < mine.slots.size(); ++s)
    slots[s] = mine.slots[s].mutable_data<float>();
  auto values = mine.own.values();
  rule_.apply(values.mutable_data<float>(), gradient.data<float>(),
              std::span{slots}.first(mine.slots.size()), mine.done,
              rule_.learning_rate(), 1 / float(examples));
}

void bare_loop::sum(replica& mine) {
  const auto count = replicas_.size();
  const auto begin = sum_.size() * mine.id / count / 16 * 16;
  const auto end = mine.id + 1 == count
                     ? sum_.size()
                     : sum_.size() * (mine.id + 1) / count / 16 * 16;
  const auto part = [&](std::size_t id) {
    return replicas_[id]->own.gradients().data<float>().data() + begin;
  };
  auto* to = sum_.mutable_data<float>().data() + begin;
  together_.arrive_and_wait();
  kernels().add(to, part(0), part(1), end - begin);
  for (std::size_t id = 2; id < count; ++id)
    kernels().add_into(to, part(id), end - begin);
  together_.arrive_and_wait();
}

} // namespace troupe::benchmarks
