#pragma once

#include "troupe/tensors/tape.hpp"
#include "troupe/training/loop/batch_feed.hpp"
#include "troupe/training/loop/buckets.hpp"
#include "troupe/training/loop/model_state.hpp"

#include <array>
#include <deque>
#include <functional>
#include <optional>

namespace troupe {

/// One step of `fit` for one replica: forward, backward, the sums of its
/// gradients as they complete, and the update. Made once for a fit; all it
/// needs is set aside then, so that a step asks the system for nothing. It owns
/// what it uses: a replica that is stuck in it outlives the call of `fit`.
class train_step {
public:
  /// Bytes of gradient that are summed as one.
  static constexpr std::size_t bucket_bytes = std::size_t{1} << 20;

  train_step(std::shared_ptr<model_state> of, const fit_options& options);

  /// From here on batches come from this feed. Null: none; the feed before is
  /// destroyed. @pre no step runs.
  void feed_from(std::shared_ptr<batch_feed> feed) { feed_ = std::move(feed); }

  /// Fills in the step's report. If the loss or the summed gradient is not
  /// finite, the report's `correct` is NaN, and no replica updates its
  /// parameters in that step, nor, if told to stop, in any later one.
  /// @cost with the update, one more read of the gradient.
  void operator()(step_context& at);

  float learning_rate(std::uint64_t step) const;

  /// After work that ended with an error: some replicas may be an update ahead
  /// of others, as none takes one back. Hands on the state of one that is
  /// furthest, and counts its steps. Only among those of this process: others
  /// may have come further, or not as far. @pre no step runs.
  void catch_up();

private:
  /// What one replica has for itself.
  struct replica {
    tensor values, gradient;               ///< [size]
    std::array<std::span<float>, 2> slots; ///< Of its copy of the values.
    std::vector<tensor> parts;             ///< Of the gradient, by bucket.
    pooled<tensor> sums;
    bucket_progress progress;
    tape::completed completed; ///< Contributes what has become ready.
    step_context* at = nullptr;
    bool finite = true;
    bool halted = false;
    std::uint64_t done = 0; ///< Steps, also those that were skipped.
  };

  void forward_and_backward(replica& mine, const batch& part);
  void contribute(replica& mine, std::uint32_t bucket);
  bool sum(replica& mine);
  void update(replica& mine, std::int64_t examples);

  const std::shared_ptr<model_state> owned_;
  model_state& it_;
  const std::optional<schedule> schedule_;
  const on_nan on_nan_;
  std::shared_ptr<batch_feed> feed_;
  std::uint32_t first_; ///< Id of the first replica of this process.
  bool shared_;         ///< One copy of the values for several replicas.
  std::uint64_t next_shared_ = 0;        ///< First step that did not update it.
  std::optional<std::uint64_t> scanned_; ///< Last step whose sums were scanned.
  bool sums_finite_ = true;      ///< Of that step. Both only if `shared_`.
  std::deque<replica> replicas_; ///< Of this process.
};

} // namespace troupe
