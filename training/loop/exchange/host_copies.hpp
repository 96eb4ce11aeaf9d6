#pragma once

#include "troupe/tensors/device_backend.hpp"
#include "troupe/tensors/tensor.hpp"

#include <memory>
#include <vector>

namespace troupe {

/// Copies results of a device to the CPU, in the order of the computation, with
/// one wait for several copies. Not thread-safe.
class host_copies {
public:
  /// @param on device of the results. On the CPU, nothing is copied.
  explicit host_copies(const device& on);
  /// Waits for copies that were started and not waited for.
  ~host_copies();
  host_copies(const host_copies&) = delete;
  host_copies& operator=(const host_copies&) = delete;

  /// Starts to copy a tensor to pinned memory. If none is left, copies it to
  /// other memory before it returns.
  /// @returns the copy, which must not be read before `wait` has returned. A
  ///          tensor that is on the CPU is its own copy.
  /// @errors throws `device_error`. If it waits for the copy, as a copy to the
  ///         CPU.
  tensor start(const tensor& x);

  /// Ends the list of copies for which `wait` waits. Work that the device gets
  /// later is not waited for.
  void record();

  /// Waits for the copies that were started before `record`.
  /// @errors as a copy to the CPU.
  void wait();

private:
  const device on_;
  std::unique_ptr<device_backend::event> copied_; ///< Null: the CPU.
  std::vector<tensor> pending_;
};

} // namespace troupe
