#include "troupe/tensors/base/kernels.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#define TROUPE_DECLARE_LEVEL(level)                                            \
  namespace level {                                                            \
  extern const elementwise_kernels elementwise;                                \
  extern const reduction_kernels reductions;                                   \
  extern const pooling_kernels pooling;                                        \
  extern const update_kernels updates;                                         \
  extern const random_kernels random;                                          \
  const kernel_table table() {                                                 \
    return {elementwise, reductions, pooling, updates, random, #level};        \
  }                                                                            \
  }

namespace troupe {

TROUPE_DECLARE_LEVEL(baseline)
#ifdef TROUPE_X86_LEVELS
TROUPE_DECLARE_LEVEL(v3)
TROUPE_DECLARE_LEVEL(v4)
#endif

namespace {

std::vector<kernel_table> runnable() {
  std::vector<kernel_table> out{baseline::table()};
#ifdef TROUPE_X86_LEVELS
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
      && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")) {
    out.push_back(v3::table());
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512cd")
        && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl"))
      out.push_back(v4::table());
  }
#endif
  return out;
}

const kernel_table& chosen() {
  const auto levels = kernel_levels();
  const char* wanted = std::getenv("TROUPE_LEVEL");
  if (!wanted || !*wanted)
    return levels.back();
  std::string known;
  for (const auto& table : levels) {
    if (table.level == wanted)
      return table;
    known += (known.empty() ? "" : ", ") + std::string{table.level};
  }
  throw std::runtime_error("TROUPE_LEVEL is '" + std::string{wanted}
                           + "'; this processor runs " + known);
}

} // namespace

std::span<const kernel_table> kernel_levels() {
  static const auto levels = runnable();
  return levels;
}

const kernel_table& kernels() {
  static const auto& table = chosen();
  return table;
}

std::string_view kernel_level() {
  return kernels().level;
}

} // namespace troupe
