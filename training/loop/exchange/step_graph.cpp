#include "troupe/training/loop/exchange/step_graph.hpp"

#include "troupe/actors/core/log.hpp"
#include "troupe/tensors/base/device_error.hpp"
#include "troupe/tensors/context.hpp"

#include <exception>
#include <string>

namespace troupe {

step_graph::step_inputs step_graph::inputs_of(const batch& rows,
                                              const tensor& class_weights) {
  const auto* const weights = rows.find("weights");
  return {rows.inputs, rows.labels, weights ? *weights : tensor{},
          class_weights};
}

step_graph::results step_graph::run(const batch& rows,
                                    const tensor& class_weights,
                                    const pass& compute) {
  const auto given = inputs_of(rows, class_weights);
  if (!has_form_of(given)) {
    if (is_given_up() || rows.rows() <= rows_)
      return compute(rows, class_weights);
    begin_warm_up(rows, given);
  }
  if (graph_) {
    copy_inputs(given);
    graph_->launch(current_context().random.step);
    return results_;
  }
  if (is_given_up())
    return compute(rows, class_weights);
  const auto random = current_context().random;
  std::string reason = "an exception that is no std::exception";
  try {
    return run_with_buffers(given, compute);
  } catch (const std::exception& e) {
    reason = e.what();
  } catch (...) {
  }
  current_context().random = random;
  note_failure(reason);
  return compute(rows, class_weights);
}

step_graph::results step_graph::run_with_buffers(const step_inputs& given,
                                                 const pass& compute) {
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    if (form_[i] != tensor_spec{} && !buffers_[i])
      buffers_[i] = tensor{form_[i], on_};
  copy_inputs(given);
  if (passes_ < warm_up_passes) {
    const auto out = compute(rows_in_buffers(), buffers_[3]);
    ++passes_;
    return out;
  }
  capture_pass(compute);
  graph_->launch(current_context().random.step);
  return results_;
}

bool step_graph::has_form_of(const step_inputs& x) const {
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i].spec() != form_[i])
      return false;
  return true;
}

void step_graph::begin_warm_up(const batch& rows, const step_inputs& x) {
  graph_.reset();
  buffers_ = {};
  results_ = {};
  passes_ = 0;
  rows_ = rows.rows();
  for (std::size_t i = 0; i < x.size(); ++i)
    form_[i] = x[i].spec();
}

void step_graph::copy_inputs(const step_inputs& from) {
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i])
      buffers_[i].copy_from(from[i]);
}

batch step_graph::rows_in_buffers() const {
  batch rows{
    .inputs = buffers_[0], .labels = buffers_[1], .global_rows = rows_};
  if (buffers_[2])
    rows.others.push_back({"weights", buffers_[2]});
  return rows;
}

void step_graph::capture_pass(const pass& compute) {
  const auto capture = backend_of(on_).begin_capture(on_);
  results_ = compute(rows_in_buffers(), buffers_[3]);
  if (current_context().random.op != capture->random_ops())
    throw device_error{"a random op would draw the same numbers in each step"};
  graph_ = capture->end();
}

void step_graph::note_failure(const std::string& reason) {
  graph_.reset();
  results_ = {};
  buffers_ = {};
  if (++failures_ == max_failures)
    log(log_level::warning, "the steps of this fit have no graph of "
                              + to_string(on_) + ": " + reason);
}

} // namespace troupe
