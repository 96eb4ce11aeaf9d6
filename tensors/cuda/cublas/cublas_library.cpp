#include "troupe/tensors/cuda/cublas/cublas_library.hpp"

#include "troupe/tensors/cuda/shared_library.hpp"

#include <string>

namespace troupe::cuda {

namespace {

cublas_library open_library() {
  static const auto name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  const shared_library library{name.c_str(), TROUPE_CUBLASLT_LIBRARY,
                               "cuBLASLt"};
  cublas_library out;
  library.find("cublasLtGetStatusName", out.get_status_name);
  library.find("cublasLtCreate", out.create);
  library.find("cublasLtMatmul", out.matmul);
  library.find("cublasLtMatmulDescCreate", out.matmul_desc_create);
  library.find("cublasLtMatmulDescDestroy", out.matmul_desc_destroy);
  library.find("cublasLtMatmulDescSetAttribute", out.matmul_desc_set_attribute);
  library.find("cublasLtMatrixLayoutCreate", out.matrix_layout_create);
  library.find("cublasLtMatrixLayoutDestroy", out.matrix_layout_destroy);
  library.find("cublasLtMatmulPreferenceCreate", out.preference_create);
  library.find("cublasLtMatmulPreferenceDestroy", out.preference_destroy);
  library.find("cublasLtMatmulPreferenceSetAttribute",
               out.preference_set_attribute);
  library.find("cublasLtMatmulAlgoGetHeuristic", out.algo_get_heuristic);
  return out;
}

} // namespace

const cublas_library& cublas() {
  static const auto functions = open_library();
  return functions;
}

} // namespace troupe::cuda
