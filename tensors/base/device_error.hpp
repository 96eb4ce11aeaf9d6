#pragma once

#include <stdexcept>

namespace troupe {

/// An error of a device: there is too little memory, or a call or a kernel has
/// failed. The text names the device or the call.
class device_error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A device has failed for this process: each later call that uses it fails
/// too, and its memory cannot be read. Another process may be able to use the
/// device. The text names the device and says why.
class device_lost : public device_error {
public:
  using device_error::device_error;
};

} // namespace troupe
