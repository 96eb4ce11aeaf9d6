#pragma once

#include "troupe/data/pipeline/batch.hpp"
#include "troupe/tensors/device_backend.hpp"
#include "troupe/training/loop/exchange/gradient_exchange.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// Captures the forward and the backward pass of a replica as a graph of its
/// device, and launches the graph in later steps. No layer, loss or tape runs
/// in such a step. For the replicas that a `device_exchange` serves.
///
///   inputs   the batch is copied to the buffers of the graph, also in the
///            warm-up: kernels are chosen by the alignment of their operands
///   warm-up  two passes run as without a graph, because libraries choose
///            algorithms and allocate memory in their first calls
///   capture  the third pass is captured, and launched
///   replay   in a later step, the graph is launched. The results are the same
///            tensors in each step
///   batches  a smaller batch, such as the last one of an epoch, is computed
///            without a graph, and the graph is kept. A larger one begins
///            another warm-up
///   faults   if a capture fails, or the device has too little memory for the
///            buffers, the pass runs without them, and the next step tries
///            again. After two failures of all replicas together, the log says
///            why, and no replica tries another time
///   end      the graph is destroyed with its `train_step`, so a later view of
///            the job captures another one
///   order    the bits are those of a pass without a graph
///
/// What differs from step to step, and how the graph gets it:
///
///   inputs, labels, weights of examples and of classes   buffers of the graph
///   number of the step, for random numbers               argument of a launch
///   parameters, gradients                                addresses that do not
///                                                        change
///
/// The seed, the replica, the precision and the frozen variables do not change.
/// Learning rate, update and metrics belong to no graph. A layer or a loss of a
/// program must not depend on a state of its own: it runs in the capture only.
class step_graph {
public:
  using results = gradient_exchange::step_results;
  /// Computes the gradients of a replica, losses and outputs.
  /// @param class_weights by example. Empty: 1.
  using pass =
    std::function<results(const batch& rows, const tensor& class_weights)>;

  /// @param failures Number of failed attempts of all replicas.
  step_graph(const device& on, std::atomic<int>& failures)
    : on_{on}, failures_{failures} {}

  /// Computes a pass. If an attempt to use a graph fails, `compute` is called
  /// twice.
  /// @param rows on the device, not empty.
  /// @errors what `compute` throws without a capture, and `device_error`.
  results run(const batch& rows, const tensor& class_weights,
              const pass& compute);

private:
  /// What a pass reads: inputs, labels, weights, class weights. Empty: none.
  using step_inputs = std::array<tensor, 4>;

  static step_inputs inputs_of(const batch& rows, const tensor& class_weights);
  bool has_form_of(const step_inputs& x) const;
  void begin_warm_up(const batch& rows, const step_inputs& x);
  bool is_given_up() const { return failures_ >= max_failures; }
  /// Computes a pass with the buffers, or with the graph.
  results run_with_buffers(const step_inputs& given, const pass& compute);
  void copy_inputs(const step_inputs& from);
  batch rows_in_buffers() const;
  void capture_pass(const pass& compute);
  void note_failure(const std::string& reason);

  static constexpr int warm_up_passes = 2, max_failures = 2;

  const device on_;
  std::atomic<int>& failures_;
  std::array<tensor_spec, 4> form_{}; ///< Specs of the inputs.
  std::int64_t rows_ = 0;             ///< Rows of a batch with this form.
  int passes_ = 0;      ///< Passes with this form before the capture.
  step_inputs buffers_; ///< Empty before the first pass.
  results results_;
  std::unique_ptr<device_backend::graph> graph_; ///< Null before the capture.
};

} // namespace troupe
