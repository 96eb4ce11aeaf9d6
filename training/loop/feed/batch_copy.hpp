#pragma once

#include "troupe/tensors/device_backend.hpp"
#include "troupe/training/strategies/replica/local_batches.hpp"

#include <memory>
#include <vector>

namespace troupe {

/// Copies the rows of a step to a device, while the device computes. An object
/// can copy for one step after another. Not thread-safe.
class batch_copy {
public:
  /// @param on a device other than the CPU.
  explicit batch_copy(const device& on);
  /// Waits until the copies are done.
  ~batch_copy();
  batch_copy(const batch_copy&) = delete;
  batch_copy& operator=(const batch_copy&) = delete;

  /// Allocates memory for copies of rows like these, which the next call of
  /// `start` uses. Those copies then need not wait for the work that the device
  /// gets between the two calls.
  void reserve(const local_batch& like);

  /// Starts to copy what a step computes with: inputs, labels, and the tensor
  /// "weights". Tensors that are on a device already are not copied.
  /// @pre `release` was called since the last call.
  /// @errors throws `device_error`.
  void start(const local_batch& rows);

  /// Returns the rows, with the copies in place of what was copied. What the
  /// device computes from now on comes after the copies.
  /// @pre `start` was called.
  const local_batch& rows();

  /// Waits until the copies are done. Then the memory from which they were made
  /// may change.
  void synchronize();

  /// Releases the copies, also if no step has used them. Does not wait.
  void release() noexcept;

private:
  template <class F>
  static void for_each_copied(local_batch& rows, F&& fn);
  void allocate(local_batch& like);

  const device on_;
  device_backend& backend_;
  const std::unique_ptr<device_backend::event>
    allocated_;                                         ///< All of `memory_`.
  const std::unique_ptr<device_backend::event> copied_; ///< All copies.
  std::vector<tensor> memory_; ///< In the order of the tensors.
  local_batch rows_;
  bool is_started_ = false; ///< `rows_` has copies.
  bool is_joined_ = false;  ///< The computation comes after the copies.
};

} // namespace troupe
