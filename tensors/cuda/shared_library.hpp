#pragma once

#include <string>

namespace troupe::cuda {

/// A library that is opened when it is first needed, so that programs start
/// without it. It stays open until the process ends.
class shared_library {
public:
  /// @param name file name that the loader looks for, such as "libnccl.so.2".
  /// @param path file that is opened if the loader does not find the name.
  /// @param product name for error texts, such as "NCCL".
  /// @errors throws device_error if neither is found.
  shared_library(const char* name, const char* path, const char* product);

  /// Sets `function` to the function with this name.
  /// @errors throws device_error if the library has none.
  template <class F>
  void find(const char* name, F& function) const {
    function = reinterpret_cast<F>(address_of(name));
  }

private:
  void* address_of(const char* name) const;

  std::string product_;
  void* handle_ = nullptr;
};

} // namespace troupe::cuda
