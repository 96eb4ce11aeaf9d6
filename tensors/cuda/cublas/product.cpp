#include "troupe/tensors/cuda/cublas/product.hpp"

#include "troupe/tensors/base/device_error.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/cuda/cublas/cublas_library.hpp"
#include "troupe/tensors/cuda/runtime.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

namespace troupe::cuda {

namespace {

std::string text_of(const product& x) {
  return "the product [" + std::to_string(x.m) + ", " + std::to_string(x.k)
         + "] x [" + std::to_string(x.k) + ", " + std::to_string(x.n) + "]";
}

void check(cublasStatus_t result, const char* call, const product& form) {
  if (result != CUBLAS_STATUS_SUCCESS)
    throw device_error{text_of(form) + " failed: " + call + " returned "
                       + cublas().get_status_name(result)};
}

cudaDataType_t data_type(dtype type) {
  return type == dtype::float64    ? CUDA_R_64F
         : type == dtype::bfloat16 ? CUDA_R_16BF
                                   : CUDA_R_32F;
}

/// A handle that a function of cuBLASLt destroys.
template <class T>
using owned = std::unique_ptr<std::remove_pointer_t<T>, cublasStatus_t (*)(T)>;

/// Alignment for which algorithms are chosen, so that the bits do not depend on
/// the addresses.
constexpr std::uint32_t alignment = 16;

// cuBLASLt is column-major, so it gets the transposed product:
// c^T = op(b)^T op(a)^T. A row-major matrix is its own transpose there.

/// What cuBLASLt needs for products of one form.
class plan {
public:
  plan(cublasLtHandle_t handle, const product& form, dtype type, dtype result,
       bool tf32)
    : form_{form}, is_double_{type == dtype::float64} {
    const auto scale = is_double_ ? CUDA_R_64F : CUDA_R_32F;
    cublasLtMatmulDesc_t description = nullptr;
    check(cublas().matmul_desc_create(&description,
                                      is_double_ ? CUBLAS_COMPUTE_64F
                                      : tf32     ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                 : CUBLAS_COMPUTE_32F,
                                      scale),
          "cublasLtMatmulDescCreate", form);
    description_ = {description, cublas().matmul_desc_destroy};
    set(CUBLASLT_MATMUL_DESC_TRANSA,
        form.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB,
        form.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (form.bias)
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    const auto layout = [&](std::int64_t rows, std::int64_t columns,
                            dtype elements) {
      cublasLtMatrixLayout_t out = nullptr;
      check(cublas().matrix_layout_create(&out, data_type(elements),
                                          std::uint64_t(rows),
                                          std::uint64_t(columns), rows),
            "cublasLtMatrixLayoutCreate", form);
      return owned<cublasLtMatrixLayout_t>{out, cublas().matrix_layout_destroy};
    };
    b_ = form.b_transposed ? layout(form.k, form.n, type)
                           : layout(form.n, form.k, type);
    a_ = form.a_transposed ? layout(form.m, form.k, type)
                           : layout(form.k, form.m, type);
    c_ = layout(form.n, form.m, result);
    choose(handle);
  }

  std::size_t workspace_bytes() const { return workspace_; }

  void run(cublasLtHandle_t handle, cudaStream_t stream, const void* a,
           const void* b, const void* bias, void* c, void* workspace) {
    if (form_.bias)
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    const float one = 1, factor = form_.add ? 1 : 0;
    const double wide_one = 1, wide_factor = factor;
    const void *const alpha =
                        is_double_ ? static_cast<const void*>(&wide_one) : &one,
                      *const beta = is_double_
                                      ? static_cast<const void*>(&wide_factor)
                                      : &factor;
    check(cublas().matmul(handle, description_.get(), alpha, b, b_.get(), a,
                          a_.get(), beta, c, c_.get(), c, c_.get(), &algorithm_,
                          workspace, workspace_, stream),
          "cublasLtMatmul", form_);
  }

private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(cublas().matmul_desc_set_attribute(description_.get(), attribute,
                                             &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute", form_);
  }

  void choose(cublasLtHandle_t handle) {
    cublasLtMatmulPreference_t made = nullptr;
    check(cublas().preference_create(&made), "cublasLtMatmulPreferenceCreate",
          form_);
    const owned<cublasLtMatmulPreference_t> preference{
      made, cublas().preference_destroy};
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute,
                            const auto& value) {
      check(cublas().preference_set_attribute(made, attribute, &value,
                                              sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute", form_);
    };
    constexpr std::uint64_t most = 32u << 20;
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most);
    // Sums of parts are not rounded to bfloat16.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                 CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                 CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                 CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      prefer(attribute, alignment);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    check(cublas().algo_get_heuristic(handle, description_.get(), b_.get(),
                                      a_.get(), c_.get(), c_.get(), made, 1,
                                      &found, &count),
          "cublasLtMatmulAlgoGetHeuristic", form_);
    if (count == 0)
      throw device_error{text_of(form_)
                         + " failed: cuBLASLt has no algorithm for it"};
    algorithm_ = found.algo;
    workspace_ = found.workspaceSize;
  }

  const product form_;
  const bool is_double_;
  owned<cublasLtMatmulDesc_t> description_{nullptr, nullptr};
  owned<cublasLtMatrixLayout_t> a_{nullptr, nullptr}, b_{nullptr, nullptr},
    c_{nullptr, nullptr};
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_ = 0;
};

/// The plans of one device.
struct plans {
  using key = std::tuple<product, dtype, dtype, bool>;

  std::mutex lock; ///< A plan holds the address of the bias during a call.
  cublasLtHandle_t handle = nullptr;
  std::map<key, plan> list;
};

/// Never destroyed: the driver could be gone before.
plans& plans_of(const device& on) {
  static auto* const lock = new std::mutex;
  static auto* const list = new std::map<std::uint32_t, plans>;
  const std::lock_guard hold{*lock};
  return (*list)[on.index];
}

bool is_aligned(const tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.address()) % alignment == 0;
}

tensor aligned(const tensor& x) {
  return is_aligned(x) ? x : x.clone();
}

} // namespace

void multiply(const op_call& call, const product& form, const tensor& a,
              const tensor& b, const tensor& bias, tensor& c) {
  auto& known = plans_of(call.on);
  const auto stream = compute_stream(call);
  const auto left = aligned(a), right = aligned(b), added = aligned(bias);
  auto result = aligned(c);
  {
    const std::lock_guard hold{known.lock};
    if (!known.handle)
      check(cublas().create(&known.handle), "cublasLtCreate", form);
    const bool tf32 =
      a.type() == dtype::float32 && current_context().allows_tf32;
    const plans::key key{form, a.type(), c.type(), tf32};
    auto at = known.list.find(key);
    if (at == known.list.end())
      at = known.list
             .try_emplace(key, known.handle, form, a.type(), c.type(), tf32)
             .first;
    const auto bytes = at->second.workspace_bytes();
    const tensor workspace{{{static_cast<std::int64_t>(bytes)}, dtype::uint8},
                           call.on};
    at->second.run(known.handle, stream, left.address(), right.address(),
                   added.address(), result.mutable_address(),
                   workspace.address());
  }
  if (!is_aligned(c))
    c.copy_from(result);
}

} // namespace troupe::cuda
