#include "troupe/tensors/onednn/primitive_cache.hpp"

#include "troupe/tensors/context.hpp"
#include "troupe/tensors/onednn/onednn.hpp"

#include <omp.h>

namespace troupe {

kernel_cache::kernel_cache()
  : primitives{std::make_unique<primitive_cache>()} {}
kernel_cache::~kernel_cache() = default;

namespace onednn {

dnnl::engine& cpu_engine() {
  static dnnl::engine it{dnnl::engine::kind::cpu, 0};
  return it;
}

dnnl::primitive_attr our_attributes() {
  dnnl::primitive_attr out;
  out.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return out;
}

kernel_cache::primitive_cache& cache() {
  auto& current = current_context();
  if (!current.kernels)
    current.kernels = std::make_unique<kernel_cache>();
  return *current.kernels->primitives;
}

bool supports_bfloat16() {
  static const bool it = [] {
    constexpr unsigned needed = dnnl_cpu_isa_avx512_core_bf16;
    const unsigned present = dnnl_get_effective_cpu_isa();
    return (present & needed) == needed;
  }();
  return it;
}

void set_threads(int count) {
  omp_set_num_threads(count);
}

int threads() {
  return omp_get_max_threads();
}

} // namespace onednn

} // namespace troupe
