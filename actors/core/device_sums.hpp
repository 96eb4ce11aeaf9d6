#pragma once

namespace troupe {

/// Interface of a `step_context` whose sums may be those of tensors on the
/// replica's device. A step context without it takes tensors on the host only.
class device_sums {
public:
  /// True: the sum of tensors on the device is on the device too, complete for
  /// later work of the device. It can change with the view of the job. False:
  /// the tensors of all sums must be on the host.
  virtual bool sums_device_tensors() const = 0;

protected:
  ~device_sums() = default;
};

} // namespace troupe
