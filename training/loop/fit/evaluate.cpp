#include "troupe/training/loop/fit/evaluate.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/training/loop/exchange/host_copies.hpp"
#include "troupe/training/loop/feed/batch_feed.hpp"
#include "troupe/training/loop/feed/batch_inputs.hpp"
#include "troupe/training/loop/model/example_losses.hpp"
#include "troupe/training/loop/model/model_state.hpp"
#include "troupe/training/strategies/calls/job_call.hpp"
#include "troupe/training/strategies/calls/run_steps.hpp"
#include "troupe/training/strategies/replica/reduce_op.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace troupe {

namespace {

/// Limits the memory that activations take in `predict`.
constexpr std::int64_t max_rows_per_call = 256;

data::dataset prefetched(const data::dataset& x) {
  return x.prefetch(x.prefetched().value_or(default_read_ahead));
}

void score(const model_state& state, const metric_list& metrics,
           step_context& step, batch_feed& feed) {
  const auto index = state.strategy->placement.job.index_of(step.replica);
  const auto on = state.strategy->device_of(index);
  const auto read = feed.batch_of_step(step.step, index);
  const auto rows = read.rows.batch_of_replica(step.replica, step.replicas);
  step.report.reset(metrics.sum_count());
  step.report.examples = static_cast<std::uint64_t>(rows.rows());
  if (step.report.examples == 0)
    return;
  const auto on_device =
    read.on_device.batch_of_replica(step.replica, step.replicas);
  const auto outputs =
    state.net.forward(inputs_of(on_device, state.net, on), state.variables());
  const auto losses = example_losses(*state.loss, outputs, on_device);
  host_copies copies{on};
  const auto losses_here = copies.start(losses),
             outputs_here = copies.start(outputs);
  copies.record();
  feed.copy_ahead(step.step);
  copies.wait();
  step.report.sums[metric_list::loss_sum] = models::total(losses_here);
  metrics.add(outputs_here, rows.labels, step.report.sums);
}

} // namespace

evaluation evaluate(const std::shared_ptr<model_state>& state,
                    const data::dataset& batches, const metric_list& metrics,
                    const std::string& name) {
  check_data(*state, batches, "the evaluation data");
  const flush_denormals flushing;
  epoch_totals totals;
  job_call call;
  call.name = name;
  call.run = [&] {
    totals = {};
    const auto feed = std::make_shared<batch_feed>(
      prefetched(batches), data::position{}, 0, *state->strategy->group,
      batch_shares{}, state->strategy->tensor_devices());
    run_request request;
    request.steps = *batches.size();
    request.step = [state, feed, metrics](step_context& at) {
      score(*state, metrics, at, *feed);
    };
    request.on_commit = [&](const commit_record& x) { totals.add(x.total); };
    run_steps(state->strategy, request);
    return encode_text(totals.examples, totals.sums);
  };
  call.complete = [&](const std::string& result) {
    totals = {};
    if (!decode_text(result, totals.examples, totals.sums))
      throw job_error(ec::protocol,
                      "a worker sent a malformed result of an evaluation");
  };
  make_call(state->strategy, call);
  evaluation out{totals.examples, totals.mean_loss()};
  out.metrics = totals.values(metrics);
  out.accuracy = accuracy_in(out.metrics);
  return out;
}

tensor predict(const model_state& state, const models::model_inputs& inputs) {
  const auto& [numbers, categories] = inputs;
  const auto& dims = numbers.dims();
  state.net.check_batch(dims);
  state.net.check_categories(categories ? &categories.spec() : nullptr,
                             dims.front());
  if (is_recorded(numbers))
    throw std::logic_error(
      "gradients do not flow through predict(), but a tape records "
      "the inputs "
      + to_string(numbers.spec()) + "; call the model, or pass their detach()");
  const pause_recording meanwhile;
  const flush_denormals flushing;
  use_threads(state.strategy->threads);
  std::vector<std::int64_t> extents{dims[0]};
  for (const auto extent : state.net.output())
    extents.push_back(extent);
  const auto on = state.strategy->tensor_device();
  tensor out{shape{extents}};
  for (std::int64_t row = 0; row < dims[0]; row += max_rows_per_call) {
    const auto end = std::min(row + max_rows_per_call, dims[0]);
    out.slice(row, end).copy_from(
      state.net.forward({numbers.slice(row, end).to(on),
                         categories ? categories.slice(row, end) : tensor{}},
                        state.variables()));
  }
  return out;
}

tensor predict(const model_state& state, const data::dataset& batches) {
  std::vector<tensor> outputs;
  for (const auto& x : prefetched(batches).iterate())
    outputs.push_back(predict(state, inputs_of(x, state.net, {})));
  if (outputs.empty())
    throw std::invalid_argument("the data to predict from has no batch; "
                                "provide at least one example");
  return concatenate(outputs, 0);
}

} // namespace troupe
