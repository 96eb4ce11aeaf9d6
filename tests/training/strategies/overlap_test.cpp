#include "clusters.hpp"
#include "troupe/actors/core/fault_injector.hpp"
#include "troupe/data/sources/digits.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/tensors/op.hpp"
#include "troupe/training/model.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>

// The reduction of the first bucket between processes has to overlap the rest
// of the backward pass.

namespace {

using namespace troupe;
using namespace troupe::test;

/// Number of the newest step for which worker 1 has sent a contribution.
std::atomic<std::uint64_t> newest_step = 0;
/// The newest step at each backward pass of the marked layer on worker 1, and
/// after the last step.
std::vector<std::uint64_t> at_mark;
std::uint64_t at_end = 0;

struct step_recorder final : fault_injector {
  injected_fault on_send(const role_id& sender, const role_id&,
                         message_kind kind, std::uint64_t,
                         std::uint64_t step) override {
    if (sender == replica_id(1) && kind == message_kind::contribution)
      newest_step = step;
    return {};
  }
};

op_outputs infer(std::span<const tensor_spec> in, const op_options&) {
  return in[0];
}

void forward(op_call& c) {
  c.out[0].copy_from(c.in[0]);
}

void backward(op_call& c) {
  if (current_context().random.replica == 1)
    at_mark.push_back(newest_step);
  c.grad_in[0].copy_from(c.grad_out[0]);
}

constexpr std::array kernels{op_kernels{dtype::float32, forward, backward}};

const op mark{.name = "overlap_mark", .infer = infer, .kernels = kernels};

/// The identity. It marks a time of the backward pass.
class marked_layer final : public models::layer {
public:
  std::string_view type() const override { return "marked"; }
  shape build(const shape& input, models::builder&) const override {
    return input;
  }
  tensor forward(const tensor& x, const models::layer_scope&) const override {
    return apply(mark, {x});
  }
};

} // namespace

/// The gradients of "big" fill a bucket. The backward pass completes them
/// before it comes to the marked layer and to "first".
TEST(Overlap, WorkersSendTheFirstBucketDuringTheBackwardPass) {
  models::register_layer<marked_layer>();
  const models::model_description description{
    .name = "overlap",
    .input = {28, 28, 1},
    .layers =
      models::stack(models::flatten{}, models::dense{64, activation::relu},
                    marked_layer{}, models::dense{8192}, models::dense{10})};
  multi_worker_options options;
  options.faults = std::make_shared<step_recorder>();
  expect_nothing_thrown(
    run_on_cluster(2, options, [&](const strategy& on, std::uint32_t worker) {
      const auto scope = on.scope();
      model fitted{description, adam{}};
      fit_options fitting;
      if (worker == 1)
        fitting.callbacks.push_back(
          {.on_step = [](const step_record&) { at_end = newest_step; }});
      fitted.fit(data::digits({.examples = 64}).batch(16), fitting);
    }));
  ASSERT_EQ(at_mark.size(), 4u); // one for each step
  for (std::size_t step = 0; step < at_mark.size(); ++step)
    EXPECT_EQ(at_mark[step] + (at_mark.size() - 1 - step), at_end)
      << "no packet of step " << step << " was sent before the marked layer";
}
