#pragma once

#include "troupe/data/pipeline/batch.hpp"
#include "troupe/tensors/device_backend.hpp"
#include "troupe/training/loop/gradient_exchange.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace troupe {

/// Captures the forward and the backward pass of a replica as a graph of its
/// device, and launches the graph in later steps. No layer, loss or tape runs
/// in such a step. For the replicas that a `device_exchange` serves.
///
///   warm-up  two passes run as without a graph, because libraries choose
///            algorithms and allocate memory in their first calls
///   capture  the third pass is captured, and launched
///   replay   in a later step, the batch is copied to the buffers of the graph,
///            which is launched. The results are the same tensors in each step
///   batches  a smaller batch, such as the last one of an epoch, is computed
///            without a graph, and the graph is kept. A larger one begins
///            another warm-up
///   faults   if a capture fails, the pass runs without a graph, the log says
///            why, and no replica tries another capture
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

  /// @param capture_has_failed true: no capture is tried. Shared by all
  /// replicas.
  step_graph(const device& on, std::atomic<bool>& capture_has_failed)
    : on_{on}, capture_has_failed_{capture_has_failed} {}

  /// Computes a pass. If a capture fails, `compute` is called twice.
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
  void copy_inputs(const step_inputs& from);
  /// @returns false if the capture has failed.
  bool capture(const pass& compute);
  void capture_pass(const pass& compute);

  static constexpr int warm_up_passes = 2;

  const device on_;
  std::atomic<bool>& capture_has_failed_;
  std::array<tensor_spec, 4> form_{}; ///< Of the inputs.
  std::int64_t rows_ = 0;             ///< Of a batch with this form.
  int passes_ = 0;                    ///< With this form, before the capture.
  step_inputs buffers_;               ///< Empty before the capture.
  results results_;
  std::unique_ptr<device_backend::graph> graph_; ///< Null before the capture.
};

} // namespace troupe
