#pragma once

#include <stdexcept>

namespace troupe {

/// An error of a device: there is too little memory, or a call or a kernel has
/// failed. The text names the device or the call.
class device_error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

} // namespace troupe
