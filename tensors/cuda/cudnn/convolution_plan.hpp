#pragma once

#include "troupe/tensors/base/dtype.hpp"
#include "troupe/tensors/cuda/cudnn/descriptor.hpp"
#include "troupe/tensors/ops/conv_geometry.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::cuda {

enum class convolution_kind : std::uint8_t {
  forward,         ///< (x, w) -> y
  backward_data,   ///< (gy, w) -> gx
  backward_weights ///< (x, gy) -> gw
};

/// The order of the elements of images and weights.
enum class image_layout : std::uint8_t {
  channels_last, ///< Images [n, h, w, c], and weights [co, kh, kw, ci].
  planes         ///< Images [n, c, h, w], and weights [co, ci, kh, kw].
};

/// The operation of a plan. All addresses are multiples of 16.
struct convolution_operation {
  convolution_kind kind{};
  conv_geometry what{};
  dtype operands{}, result{}; ///< float32 or bfloat16.
  bool tf32 = false;          ///< Operands in float32 may be rounded to TF32.
  image_layout layout = image_layout::channels_last;

  bool operator==(const convolution_operation&) const = default;
};

/// Formats an operation with its shapes, for messages.
std::string to_string(const convolution_operation& x);

/// Identifies a tensor of an operation in a plan.
enum class tensor_id : std::int64_t { x = 1, w = 2, y = 3 };

/// How cuDNN computes an operation: the engine and its parameters.
struct convolution_plan {
  /// Largest workspace of an engine that is chosen.
  static constexpr std::int64_t max_workspace_bytes = 512 << 20;

  /// Chooses the first engine that cuDNN recommends and that has the properties
  /// that convolution.hpp describes.
  /// @param handle of the device that this thread has selected.
  /// @errors throws device_error only if cuDNN itself fails.
  static convolution_plan choose(cudnnHandle_t handle,
                                 const convolution_operation& operation);

  descriptor plan; ///< Null: there is no such engine.
  std::int64_t workspace_bytes = 0;
  std::string reason;            ///< Says why there is no engine.
  std::vector<descriptor> parts; ///< What the plan was made of.
};

} // namespace troupe::cuda
