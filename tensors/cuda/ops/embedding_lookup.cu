#include "troupe/tensors/ops/embedding_lookup.hpp"

#include "troupe/tensors/cuda/elements.cuh"
#include "troupe/tensors/cuda/invalid_value.cuh"
#include "troupe/tensors/cuda/launch.cuh"
#include "troupe/tensors/cuda/ops/kernels.hpp"
#include "troupe/tensors/ops/embedding_rows.hpp"

#include <limits>
#include <type_traits>

namespace troupe::cuda {

namespace {

using kind = invalid_value::kind;

/// Returns a unit all of whose bytes are 0xFF. As floats of any dtype, they are
/// NaN.
template <class Unit>
__device__ Unit nan_unit() {
  if constexpr (std::is_same_v<Unit, uint4>)
    return {~0u, ~0u, ~0u, ~0u};
  else
    return std::numeric_limits<Unit>::max();
}

/// The row of an id that is out of range is NaN. So a loss that depends on it
/// is NaN too, and no update is made.
/// @param Unit what a thread copies: an unsigned integer of the size of an
///        element, or 16 bytes.
template <class Unit, class Id>
void copy_rows(op_call& c) {
  const auto* const table = elements<Unit>(c.in[0]);
  const auto* const ids = elements<Id>(c.in[1]);
  auto* const y = mutable_elements<Unit>(c.out[0]);
  const auto row =
    ops::elements_of_row(c.in[0].dims()) * size_of(c.type) / sizeof(Unit);
  const auto rows = c.in[0].dims().front();
  auto* const invalid = invalid_value_of(c.on);
  run(c, c.in[1].size() * row, [=] __device__(std::size_t i) {
    const auto at = i / row;
    const auto id = static_cast<std::int64_t>(ids[at]);
    if (id >= 0 && id < rows) {
      y[i] = table[std::size_t(id) * row + i % row];
      return;
    }
    report_invalid(invalid, kind::id, id, static_cast<long long>(at), rows);
    y[i] = nan_unit<Unit>();
  });
}

template <class Unit>
void copy_rows(op_call& c) {
  c.in[1].type() == dtype::int32 ? copy_rows<Unit, std::int32_t>(c)
                                 : copy_rows<Unit, std::int64_t>(c);
}

/// @param T an unsigned integer of the size of an element.
template <class T>
void forward(op_call& c) {
  constexpr int lanes = 16 / sizeof(T);
  if (ops::elements_of_row(c.in[0].dims()) % lanes == 0
      && are_aligned<lanes>(elements<T>(c.in[0]), elements<T>(c.out[0])))
    copy_rows<uint4>(c);
  else
    copy_rows<T>(c);
}

constexpr std::array rows{
  op_kernels{dtype::float32, forward<std::uint32_t>,
             ops::embedding_lookup_backward, device_kind::cuda},
  op_kernels{dtype::float64, forward<std::uint64_t>,
             ops::embedding_lookup_backward, device_kind::cuda},
  op_kernels{dtype::bfloat16, forward<std::uint16_t>,
             ops::embedding_lookup_backward, device_kind::cuda},
};

} // namespace

std::span<const kernels_of_op> embedding_lookup_kernels() {
  static const std::array list{kernels_of_op{&ops::embedding_lookup, rows}};
  return list;
}

} // namespace troupe::cuda
