#include "troupe/tensors/cuda/cudnn/convolution_plan.hpp"

#include "troupe/tensors/base/device_error.hpp"
#include "troupe/tensors/base/shape.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace troupe::cuda {

namespace {

using kind = convolution_kind;

constexpr std::int64_t alignment = 16;

cudnnDataType_t data_type(dtype type) {
  return type == dtype::bfloat16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

/// Describes a tensor of n images, or the weights of n output channels.
descriptor tensor_of(tensor_id which, dtype type, image_layout layout,
                     std::int64_t n, std::int64_t c, std::int64_t h,
                     std::int64_t w) {
  descriptor out{CUDNN_BACKEND_TENSOR_DESCRIPTOR};
  out.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, data_type(type));
  out.set(CUDNN_ATTR_TENSOR_DIMENSIONS, {n, c, h, w});
  if (layout == image_layout::planes)
    out.set(CUDNN_ATTR_TENSOR_STRIDES, {h * w * c, h * w, w, 1});
  else
    out.set(CUDNN_ATTR_TENSOR_STRIDES, {h * w * c, 1, w * c, c});
  out.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, static_cast<std::int64_t>(which));
  out.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
  out.finalize();
  return out;
}

descriptor convolution_of(const conv_geometry& g) {
  descriptor out{CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR};
  out.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
          CUDNN_DATA_FLOAT);
  out.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
          CUDNN_CROSS_CORRELATION);
  out.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
  out.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1});
  out.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {g.stride_h, g.stride_w});
  out.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {g.top, g.left});
  out.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {g.bottom, g.right});
  out.finalize();
  return out;
}

/// The names of an operation's attributes in the order convolution, x, w, y,
/// alpha, beta. The result is alpha * product + beta * result.
struct operation_names {
  cudnnBackendDescriptorType_t type;
  std::array<cudnnBackendAttributeName_t, 4> descriptors;
  cudnnBackendAttributeName_t alpha, beta;
};

operation_names names_of(kind which) {
  switch (which) {
    case kind::backward_data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case kind::backward_weights:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    case kind::forward:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

/// Describes an operation as a graph.
/// @returns the graph, and behind it what it was made of.
std::vector<descriptor> graph_of(cudnnHandle_t handle,
                                 const convolution_operation& operation) {
  const auto& g = operation.what;
  const auto type_of = [&](kind writer) {
    return operation.kind == writer ? operation.result : operation.operands;
  };
  const auto names = names_of(operation.kind);
  descriptor op{names.type};
  std::vector<descriptor> out(1);
  out.push_back(convolution_of(g));
  const auto add = [&](tensor_id which, kind writer, std::int64_t n,
                       std::int64_t c, std::int64_t h, std::int64_t w) {
    out.push_back(
      tensor_of(which, type_of(writer), operation.layout, n, c, h, w));
  };
  add(tensor_id::x, kind::backward_data, g.n, g.ci, g.h, g.w);
  add(tensor_id::w, kind::backward_weights, g.co, g.ci, g.kh, g.kw);
  add(tensor_id::y, kind::forward, g.n, g.co, g.oh, g.ow);
  for (std::size_t i = 0; i < names.descriptors.size(); ++i)
    op.set(names.descriptors[i], out[1 + i]);
  op.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f);
  op.set(names.beta, CUDNN_TYPE_FLOAT, 0.0f);
  op.finalize();

  descriptor graph{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, op);
  graph.finalize();
  out.push_back(std::move(op));
  out[0] = std::move(graph);
  return out;
}

/// Returns what cuDNN recommends, best first.
std::vector<descriptor> recommend(const descriptor& graph,
                                  cudnnBackendHeurMode_t mode,
                                  std::string& reason) {
  descriptor heuristic{CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR};
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (const auto result = heuristic.try_finalize();
      result != CUDNN_STATUS_SUCCESS) {
    reason = cudnn_reason(result);
    return {};
  }
  const auto read = [&](std::int64_t capacity, std::int64_t& count,
                        void* found) {
    const auto result = cudnn().get_attribute(
      heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
      CUDNN_TYPE_BACKEND_DESCRIPTOR, capacity, &count, found);
    if (result != CUDNN_STATUS_SUCCESS) {
      reason = cudnn_reason(result);
      count = 0;
    }
  };
  std::int64_t count = 0;
  read(0, count, nullptr);
  std::vector<descriptor> out;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    out.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    handles.push_back(out.back().get());
  }
  if (count > 0)
    read(count, count, handles.data());
  out.resize(static_cast<std::size_t>(count));
  return out;
}

/// True if an engine's results may change from call to call, or have larger
/// errors than sums in float32.
/// @param config configuration of the engine.
bool is_imprecise(const descriptor& config,
                  const convolution_operation& operation) {
  descriptor engine{CUDNN_BACKEND_ENGINE_DESCRIPTOR};
  auto handle = engine.get();
  std::int64_t count = 0;
  check(cudnn().get_attribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                              CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                              &handle),
        "cudnnBackendGetAttribute of an engine");
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT>
    notes{};
  count = 0;
  check(cudnn().get_attribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                              CUDNN_TYPE_NUMERICAL_NOTE,
                              std::int64_t{notes.size()}, &count, notes.data()),
        "cudnnBackendGetAttribute of an engine's notes");
  const auto known = std::min(static_cast<std::size_t>(count), notes.size());
  return std::ranges::any_of(
    std::span{notes}.first(known), [&](cudnnBackendNumericalNote_t note) {
      switch (note) {
        case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: // TF32 for float32
        case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
          return operation.operands == dtype::float32 && !operation.tf32;
        case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
          return true;
        default:
          return false;
      }
    });
}

std::string to_string(kind which) {
  return which == kind::forward         ? "a convolution"
         : which == kind::backward_data ? "the data gradient of a convolution"
                                        : "the weight gradient of a "
                                          "convolution";
}

} // namespace

std::string to_string(const convolution_operation& x) {
  const auto& g = x.what;
  const auto pair = [](std::int64_t a, std::int64_t b) {
    return std::to_string(a) + " x " + std::to_string(b);
  };
  return to_string(x.kind) + " in " + std::string{to_string(x.operands)}
         + " with a result in " + std::string{to_string(x.result)} + ", x "
         + to_string(shape{g.n, g.h, g.w, g.ci}) + ", w "
         + to_string(shape{g.kh, g.kw, g.ci, g.co}) + ", stride "
         + pair(g.stride_h, g.stride_w) + ", padding "
         + pair(g.top + g.bottom, g.left + g.right);
}

convolution_plan
convolution_plan::choose(cudnnHandle_t handle,
                         const convolution_operation& operation) {
  convolution_plan out;
  out.reason = "it recommends no engine";
  std::vector<descriptor> graph;
  try {
    graph = graph_of(handle, operation);
  } catch (const device_error& e) {
    out.reason = e.what();
    return out;
  }
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (auto& config : recommend(graph[0], mode, out.reason)) {
      if (is_imprecise(config, operation)) {
        out.reason = "its engines are imprecise or not deterministic";
        continue;
      }
      descriptor plan{CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR};
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      if (const auto result = plan.try_finalize();
          result != CUDNN_STATUS_SUCCESS) {
        out.reason = cudnn_reason(result);
        continue;
      }
      std::int64_t count = 0, bytes = 0;
      check(cudnn().get_attribute(plan.get(),
                                  CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                  CUDNN_TYPE_INT64, 1, &count, &bytes),
            "cudnnBackendGetAttribute of a workspace");
      if (bytes > max_workspace_bytes) {
        out.reason = "an engine needs " + std::to_string(bytes >> 20)
                     + " MiB of workspace";
        continue;
      }
      out.plan = std::move(plan);
      out.workspace_bytes = bytes;
      out.parts = std::move(graph);
      out.parts.push_back(std::move(config));
      return out;
    }
  return out;
}

} // namespace troupe::cuda
