#pragma once

#include "troupe/training/remote/step_functions.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// State of step functions that the library does not know, as
/// `step_functions::snapshot` returns it. It is kept before each step, and
/// copied to processes that lack it.
class step_snapshot final : public placement_observer {
public:
  /// Maximum size of a snapshot that is copied to another process.
  static constexpr std::size_t max_bytes = std::size_t{1} << 30;

  /// @errors throws std::invalid_argument if only one of the two functions is
  ///         set.
  explicit step_snapshot(const step_functions& functions);

  void on_new_placement() override {}
  void keep_state() override;
  void restore_state() override;
  /// The number of bytes of the encoded snapshot, which is one tensor.
  /// @errors throws std::logic_error if it is too large.
  std::string state_text() override;
  /// @errors throws `job_error` (protocol) if the text is malformed.
  std::vector<tensor> state_tensors(const std::string& text) override;
  /// @errors throws `job_error` (protocol) if the snapshot is malformed.
  void on_copied(const std::string& text) override;

private:
  const std::function<tensors()> snapshot_;
  const std::function<void(const tensors&)> restore_;
  std::optional<tensors> kept_;
  /// The encoded snapshot of this process, at the last `state_text`.
  tensor own_;
  /// Gets the one of the process that has the state.
  tensor received_;
};

} // namespace troupe
