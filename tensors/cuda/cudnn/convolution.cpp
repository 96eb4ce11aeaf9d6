#include "troupe/tensors/cuda/cudnn/convolution.hpp"

#include "troupe/tensors/base/device_error.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/cuda/cudnn/convolution_plan.hpp"
#include "troupe/tensors/cuda/kernels/convolution_parts.hpp"
#include "troupe/tensors/cuda/kernels/weight_gradient.hpp"
#include "troupe/tensors/cuda/runtime.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace troupe::cuda {

namespace {

using kind = convolution_kind;

/// The handle and the plans of one device.
class plan_cache {
public:
  explicit plan_cache(const device& on) : on_{on} {}

  /// Runs an operation.
  /// @param addresses those of x, w and y, in this order.
  /// @returns why cuDNN has no engine for the operation, or an empty text.
  std::string run(const convolution_operation& operation,
                  std::array<std::byte*, 3> addresses) {
    const auto stream = compute_stream(on_);
    const std::lock_guard guard{lock_};
    if (!handle_) {
      cudnnHandle_t made = nullptr;
      check(cudnn().create(&made), "cudnnCreate");
      handle_ = made;
    }
    if (stream != stream_) {
      check(cudnn().set_stream(handle_, stream), "cudnnSetStream");
      stream_ = stream;
    }
    const auto& plan = find(operation);
    if (!plan.plan)
      return plan.reason;
    const tensor workspace{{shape{plan.workspace_bytes}, dtype::uint8}, on_};
    const std::array uids{tensor_id::x, tensor_id::w, tensor_id::y};
    auto* const scratch = workspace.address();
    descriptor pack{CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR};
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids.size(),
             uids.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
             addresses.size(), addresses.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, scratch);
    pack.finalize();
    check(cudnn().execute(handle_, plan.plan.get(), pack.get()),
          "cudnnBackendExecute");
    return {};
  }

private:
  /// All numbers of an operation.
  using key = std::array<std::int64_t, 20>;

  static key key_of(const convolution_operation& o) {
    const auto& g = o.what;
    return {static_cast<std::int64_t>(o.kind),
            static_cast<std::int64_t>(o.operands),
            static_cast<std::int64_t>(o.result),
            o.tf32,
            static_cast<std::int64_t>(o.layout),
            g.n,
            g.h,
            g.w,
            g.ci,
            g.co,
            g.kh,
            g.kw,
            g.oh,
            g.ow,
            g.stride_h,
            g.stride_w,
            g.top,
            g.bottom,
            g.left,
            g.right};
  }

  const convolution_plan& find(const convolution_operation& operation) {
    const auto k = key_of(operation);
    const auto found = plans_.find(k);
    if (found != plans_.end())
      return found->second;
    return plans_.emplace(k, convolution_plan::choose(handle_, operation))
      .first->second;
  }

  device on_;
  std::mutex lock_;
  cudnnHandle_t handle_ = nullptr; ///< Null: not yet created.
  cudaStream_t stream_ = nullptr;  ///< Stream of the handle. Null: not yet set.
  std::map<key, convolution_plan> plans_;
};

/// Returns the plans of a device. They are never destroyed, because the driver
/// may end before static objects do.
plan_cache& plans_of(const device& on) {
  static auto& lock = *new std::mutex;
  static auto& caches = *new std::map<device, plan_cache>;
  const std::lock_guard guard{lock};
  return caches.try_emplace(on, on).first->second;
}

/// Tensors of an operation, in the layout of the operation.
struct convolution_tensors {
  tensor x, w, y;

  tensor& result(kind which) {
    return which == kind::forward ? y : which == kind::backward_data ? x : w;
  }
};

bool is_aligned(const tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.address()) % 16 == 0;
}

image_extents extents_of(const tensor& images) {
  return {static_cast<std::size_t>(images.dims()[1]),
          static_cast<std::size_t>(images.dims()[2])};
}

/// Copies images to others that are larger or smaller at the bottom and at the
/// right.
void fit(const tensor& from, tensor& to) {
  check(fit_images(from.type(), from.address(), extents_of(from),
                   to.mutable_address(), extents_of(to),
                   static_cast<std::size_t>(from.dims()[0]),
                   static_cast<std::size_t>(from.dims()[3]),
                   compute_stream(from.device())),
        "the kernel that pads images");
}

void run(const convolution_operation& operation,
         const convolution_tensors& all);

/// Computes an operation whose padding has different extents on two opposite
/// sides, for which cuDNN has few engines. The images get the rows and columns
/// that one side has more than the other.
void run_with_padded_images(convolution_operation operation,
                            convolution_tensors all) {
  auto& g = operation.what;
  const auto more_rows = g.bottom - g.top, more_columns = g.right - g.left;
  g.h += more_rows;
  g.w += more_columns;
  g.bottom = g.top;
  g.right = g.left;
  const auto images = all.x;
  all.x = tensor{{shape{g.n, g.h, g.w, g.ci}, images.type()}, images.device()};
  if (operation.kind != kind::backward_data)
    fit(images, all.x);
  run(operation, all);
  if (operation.kind == kind::backward_data) {
    auto gradient = images;
    fit(all.x, gradient);
  }
}

/// Computes an operation in bfloat16 with operands in float32. TF32 has room
/// for bfloat16, so it rounds no operand.
void run_in_float(convolution_operation operation, convolution_tensors all) {
  auto& target = all.result(operation.kind);
  auto result = target;
  if (result.type() != dtype::float32)
    target = tensor{{result.dims(), dtype::float32}, result.device()};
  for (auto* each : {&all.x, &all.w, &all.y})
    *each = each->as(dtype::float32);
  operation.operands = operation.result = dtype::float32;
  operation.tf32 = true;
  run(operation, all);
  if (result.type() != dtype::float32)
    result.copy_from(target.as(result.type()));
}

void run(const convolution_operation& operation,
         const convolution_tensors& all) {
  const auto& g = operation.what;
  const auto on = all.x.device();
  const auto reason = plans_of(on).run(
    operation, {all.x.address(), all.w.address(), all.y.address()});
  if (reason.empty())
    return;
  if (operation.layout == image_layout::channels_last
      && (g.bottom > g.top || g.right > g.left))
    return run_with_padded_images(operation, all);
  if (operation.operands == dtype::bfloat16)
    return run_in_float(operation, all);
  throw device_error{"cuDNN " + cudnn_version() + " has no engine for "
                     + to_string(operation) + ", on " + to_string(on) + ": "
                     + reason};
}

/// Copies the operands whose addresses are not aligned, and computes the
/// operation.
void run_aligned(kind which, const conv_geometry& g, image_layout layout,
                 convolution_tensors all) {
  const convolution_operation operation{
    which,
    g,
    (which == kind::forward ? all.x : all.y).type(),
    all.result(which).type(),
    current_context().allows_tf32,
    layout};
  auto result = all.result(which);
  for (auto* each : {&all.x, &all.w, &all.y})
    if (!is_aligned(*each))
      *each = each->clone();
  run(operation, all);
  const auto& computed = all.result(which);
  if (!is_aligned(result))
    result.copy_from(computed);
}

/// Writes the transposes of x, as `count` matrices of `rows` rows.
void transpose_matrices(const tensor& x, tensor& to, std::int64_t count,
                        std::int64_t rows) {
  const auto matrices = static_cast<std::size_t>(count),
             height = static_cast<std::size_t>(rows);
  check(transpose(x.type(), x.address(), to.mutable_address(), matrices, height,
                  x.size() / matrices / height, compute_stream(x.device())),
        "the kernel that transposes");
}

/// Returns a tensor like x, without values.
tensor like(const tensor& x) {
  return tensor{x.spec(), x.device()};
}

/// Returns weights [kh, kw, ci, co] in the order of cuDNN.
tensor to_cudnn(const conv_geometry& g, const tensor& w, image_layout layout) {
  auto out = like(w);
  transpose_matrices(w, out, 1, g.kh * g.kw * g.ci); // [co, kh, kw, ci]
  if (layout == image_layout::channels_last)
    return out;
  auto planes = like(w);
  transpose_matrices(out, planes, g.co, g.kh * g.kw);
  return planes;
}

/// Writes weights that are in the order of cuDNN as [kh, kw, ci, co].
void from_cudnn(const conv_geometry& g, const tensor& w, image_layout layout,
                tensor& to) {
  auto rows = w;
  if (layout == image_layout::planes) {
    rows = like(w);
    transpose_matrices(w, rows, g.co, g.ci);
  }
  transpose_matrices(rows, to, 1, g.co);
}

/// Computes the gradient of the weights for images of one channel.
void sum_one_channel(const conv_geometry& what, const tensor& x,
                     const tensor& gy, tensor& gw) {
  const auto on = x.device();
  tensor scratch{{shape{static_cast<std::int64_t>(one_channel_scratch(what))}},
                 on};
  const auto floats = [](std::byte* address) {
    return reinterpret_cast<float*>(address);
  };
  check(one_channel_weight_gradient(
          what, reinterpret_cast<const float*>(x.address()),
          reinterpret_cast<const float*>(gy.address()),
          floats(scratch.mutable_address()), floats(gw.mutable_address()),
          compute_stream(on)),
        "the kernel that sums the gradient of weights");
}

} // namespace

tensor to_planes(const tensor& images) {
  auto out = like(images);
  if (images.size() > 0)
    transpose_matrices(images, out, images.dims()[0],
                       images.dims()[1] * images.dims()[2]);
  return out;
}

void from_planes(const tensor& planes, tensor& images) {
  if (images.size() > 0)
    transpose_matrices(planes, images, images.dims()[0], images.dims()[3]);
}

void convolve(const conv_geometry& what, const tensor& x, const tensor& w,
              tensor& y, image_layout layout) {
  if (what.n > 0)
    run_aligned(kind::forward, what, layout, {x, to_cudnn(what, w, layout), y});
}

void convolve_backward_data(const conv_geometry& what, const tensor& gy,
                            const tensor& w, tensor& gx, image_layout layout) {
  if (what.n > 0)
    run_aligned(kind::backward_data, what, layout,
                {gx, to_cudnn(what, w, layout), gy});
}

void convolve_backward_weights(const conv_geometry& what, const tensor& x,
                               const tensor& gy, tensor& gw,
                               image_layout layout) {
  if (what.n == 0)
    return gw.set_zero();
  if (layout == image_layout::channels_last && x.type() == dtype::float32
      && gw.type() == dtype::float32 && !current_context().allows_tf32
      && has_one_channel_kernel(what))
    return sum_one_channel(what, x, gy, gw);
  const auto ordered = like(gw);
  run_aligned(kind::backward_weights, what, layout, {x, ordered, gy});
  from_cudnn(what, ordered, layout, gw);
}

} // namespace troupe::cuda
