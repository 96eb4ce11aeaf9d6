#pragma once

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/tensors/ops/dense.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/softmax_cross_entropy.hpp"
#include "troupe/tensors/random.hpp"
#include "troupe/tensors/tape.hpp"

#include <cstdint>
#include <vector>

namespace troupe::test {

/// Training of a small but complete network, of which a thousand runs take
/// seconds. It has two dense layers, cross-entropy, a tape, momentum, and one
/// sum per parameter that begins during the backward pass. The gradients of the
/// replicas differ, so a sum in another order has other bits.
class tiny_training {
public:
  explicit tiny_training(std::uint32_t replicas)
    : weights_{{{"w1", {inputs, hidden}},
                {"b1", {hidden}},
                {"w2", {hidden, classes}},
                {"b2", {classes}}},
               replicas,
               replicas} {
    for (std::uint32_t r = 0; r < replicas; ++r) {
      random_stream draw{{.seed = 1}};
      for (auto& x : weights_.values(r).mutable_data<float>())
        x = draw.uniform(-0.5f, 0.5f);
      momenta_.push_back(tensor::zeros(weights_.values(r).dims()));
    }
  }

  /// Runs one step on the batch that has the number of the step.
  void step(step_context& at) { step(at, at.step); }

  /// Runs one step on the given batch.
  void step(step_context& at, std::uint64_t batch) {
    contribute(at, batch);
    update(at);
  }

  /// Runs the forward and the backward pass. Each sum begins when its gradient
  /// is complete.
  void contribute(step_context& at, std::uint64_t batch) {
    random_stream draw{{.seed = 2, .replica = at.replica, .step = batch}};
    tensor x{{examples, inputs}}, labels{{examples}, dtype::int32};
    for (auto& e : x.mutable_data<float>())
      e = draw.uniform(-1, 1);
    for (auto& e : labels.mutable_data<std::int32_t>())
      e = static_cast<std::int32_t>(draw.below(classes));
    const auto& v = weights_.variables();
    tape t;
    const auto h = dense(x, v[0].value(), v[1].value(), activation::relu);
    const auto loss =
      softmax_cross_entropy(dense(h, v[2].value(), v[3].value()), labels);
    at.report.examples = examples;
    at.report.sums = {reduce_sum(loss).item<float>()};
    // The gradients are cloned, so that pending contributions keep their
    // values.
    t.gradient_into_variables(loss, v, [&](std::size_t i) {
      at.contribute(static_cast<std::uint32_t>(i), v[i].gradient().clone());
    });
  }

  /// Waits for the sums of the gradients, one sum per parameter.
  tensors sums(step_context& at) {
    tensors all;
    for (std::uint32_t i = 0; i < weights_.variables().size(); ++i)
      all.push_back(at.sum(i));
    return all;
  }

  /// Waits for the sums and updates the parameters with them.
  void update(step_context& at) {
    const auto all = sums(at);
    at.begin_update();
    for (std::size_t i = 0; i < all.size(); ++i)
      apply(at, weights_.offset(i), all[i]);
  }

  /// Returns the parameter values and the momenta of each replica.
  tensors state() const {
    tensors tensors_by_replica;
    for (std::uint32_t r = 0; r < momenta_.size(); ++r) {
      tensors_by_replica.push_back(weights_.values(r).clone());
      tensors_by_replica.push_back(momenta_[r].clone());
    }
    return tensors_by_replica;
  }

private:
  static constexpr int examples = 4, inputs = 5, hidden = 6, classes = 3;

  void apply(const step_context& at, std::size_t offset, const tensor& sum) {
    auto w = weights_.values(at.replica).mutable_data<float>().subspan(offset);
    auto m = momenta_[at.replica].mutable_data<float>().subspan(offset);
    const auto mean = 1.0f / static_cast<float>(examples * at.replicas);
    const auto g = sum.data<float>();
    for (std::size_t i = 0; i < g.size(); ++i) {
      m[i] = 0.9f * m[i] + g[i] * mean;
      w[i] -= 0.1f * m[i];
    }
  }

  parameters weights_;
  tensors momenta_; ///< Indexed by replica.
};

} // namespace troupe::test
