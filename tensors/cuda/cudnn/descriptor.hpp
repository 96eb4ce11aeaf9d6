#pragma once

#include "troupe/tensors/cuda/cudnn/cudnn_library.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::cuda {

/// Owns a descriptor of cuDNN's graph API.
class descriptor {
public:
  descriptor() = default; ///< Null: no descriptor.
  /// @errors throws device_error, as all members.
  explicit descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    check(cudnn().create_descriptor(type, &made),
          "cudnnBackendCreateDescriptor");
    handle_.reset(made);
  }

  cudnnBackendDescriptor_t get() const { return handle_.get(); }
  explicit operator bool() const { return handle_ != nullptr; }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           std::size_t count, const void* values) {
    check(cudnn().set_attribute(get(), name, type,
                                static_cast<std::int64_t>(count), values),
          "cudnnBackendSetAttribute");
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           const T& value) {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, std::int64_t value) {
    set(name, CUDNN_TYPE_INT64, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name,
           const std::vector<std::int64_t>& values) {
    set(name, CUDNN_TYPE_INT64, values.size(), values.data());
  }
  void set(cudnnBackendAttributeName_t name, const descriptor& value) {
    const auto handle = value.get();
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
  }

  /// Ends the definition, and checks it.
  cudnnStatus_t try_finalize() { return cudnn().finalize(get()); }
  void finalize() { check(try_finalize(), "cudnnBackendFinalize"); }

private:
  struct destroy {
    void operator()(void* handle) const { cudnn().destroy_descriptor(handle); }
  };
  std::unique_ptr<void, destroy> handle_;
};

} // namespace troupe::cuda
