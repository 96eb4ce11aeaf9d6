#include "troupe/models/metrics.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/training/loop/batch_feed.hpp"
#include "troupe/training/loop/model_state.hpp"
#include "troupe/training/strategies/reduce_op.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace troupe {

namespace {

constexpr std::int64_t rows_at_once = 256; // Bounds the memory of activations.
constexpr std::size_t read_ahead = 2;      // Batches.

data::dataset prefetched(const data::dataset& x) {
  return x.prefetch(x.prefetched().value_or(read_ahead));
}

void score(const model_state& it, step_context& at, const batch& part) {
  at.report = {};
  at.report.examples = part.labels.size();
  if (at.report.examples == 0)
    return;
  const auto outputs = it.net.forward(part.inputs, it.variables());
  at.report.loss_sum = models::total(it.loss->of(outputs, part.labels));
  at.report.correct =
    static_cast<double>(models::correct(outputs, part.labels));
}

} // namespace

evaluation evaluate(const std::shared_ptr<model_state>& it,
                    const data::dataset& batches) {
  check_data(*it, batches, "the evaluation data");
  const auto feed = std::make_shared<batch_feed>(
    prefetched(batches), data::position{}, 0, *it->strategy->members);
  pass_totals totals;
  work all;
  all.steps = *batches.size();
  all.step = [it, feed](step_context& at) {
    score(*it, at, feed->of(at.step).part_of(at.replica, at.replicas));
  };
  all.on_commit = [&](const commit_record& x) { totals.add(x.total); };
  run_work(it->strategy, all);
  const auto n =
    static_cast<double>(std::max<std::uint64_t>(totals.examples, 1));
  return {totals.examples, totals.loss_sum / n, totals.correct / n};
}

tensor predict(const model_state& it, const tensor& inputs) {
  if (inputs.dims().rank() == 0)
    it.net.check_input({});
  const auto& dims = inputs.dims();
  it.net.check_input(dims.axes(1, dims.rank()));
  if (is_recorded(inputs))
    throw std::logic_error(
      "gradients do not flow through predict(), but a tape records "
      "the inputs "
      + to_string(inputs.spec()) + "; call the model, or pass their detach()");
  const pause_recording meanwhile;
  use_threads(it.strategy->threads);
  std::vector<std::int64_t> extents{dims[0]};
  for (const auto extent : it.net.output())
    extents.push_back(extent);
  tensor out{shape{extents}};
  for (std::int64_t row = 0; row < dims[0]; row += rows_at_once) {
    const auto end = std::min(row + rows_at_once, dims[0]);
    out.slice(row, end).copy_from(
      it.net.forward(inputs.slice(row, end), it.variables()));
  }
  return out;
}

tensor predict(const model_state& it, const data::dataset& batches) {
  std::vector<tensor> parts;
  for (const auto& x : prefetched(batches).iterate())
    parts.push_back(predict(it, x.inputs));
  return concatenate(parts, 0);
}

} // namespace troupe
