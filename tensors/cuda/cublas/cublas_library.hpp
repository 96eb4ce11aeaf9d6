#pragma once

#include <cublasLt.h>

namespace troupe::cuda {

/// The functions of cuBLASLt that are used.
struct cublas_library {
  decltype(&cublasLtGetStatusName) get_status_name;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulDescCreate) matmul_desc_create;
  decltype(&cublasLtMatmulDescDestroy) matmul_desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) matmul_desc_set_attribute;
  decltype(&cublasLtMatrixLayoutCreate) matrix_layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) matrix_layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set_attribute;
  decltype(&cublasLtMatmulAlgoGetHeuristic) algo_get_heuristic;
};

/// Returns the functions of cuBLASLt. The library is opened at the first call:
/// programs without products on a device do not load its 500 MiB.
/// @errors throws device_error if the library is missing or lacks a function.
const cublas_library& cublas();

} // namespace troupe::cuda
