#pragma once

#include "troupe/tensors/device_backend.hpp"
#include "troupe/tensors/tensor.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <string>

// Tests of CUDA devices. They are skipped on a machine without one.

namespace troupe::cuda {

// tensors/cuda/runtime.hpp declares it too, but needs the headers of CUDA.
std::uint64_t synchronizations();

} // namespace troupe::cuda

namespace troupe::test {

inline constexpr device card{device_kind::cuda, 0};

class OnACard : public ::testing::Test {
protected:
  void SetUp() override {
    if (!find_device_backend(device_kind::cuda))
      GTEST_SKIP() << "this machine has no CUDA device";
  }
  device_backend& backend() { return backend_of(card); }
};

inline std::string error_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

} // namespace troupe::test
