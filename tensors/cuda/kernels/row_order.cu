#include "troupe/tensors/cuda/kernels/row_order.hpp"

#include "troupe/tensors/base/device_error.hpp"
#include "troupe/tensors/cuda/launch.cuh"

#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <string>

namespace troupe::cuda {

namespace {

tensor list_of_words(std::size_t n, const device& on) {
  return {{{static_cast<std::int64_t>(n)}, dtype::int64}, on};
}

/// Runs a function of CUB, first to ask how much memory it needs. The memory is
/// that of the device's tensors.
template <class F>
void run_with_memory(const device& on, const char* name, const F& fn) {
  std::size_t bytes = 0;
  check(fn(nullptr, bytes), name);
  tensor memory{{{static_cast<std::int64_t>(bytes)}, dtype::uint8}, on};
  check(fn(memory.mutable_address(), bytes), name);
}

} // namespace

row_order order_by_row(const tensor& indices, std::int64_t rows) {
  const auto on = indices.device();
  const auto n = indices.size();
  const auto stream = compute_stream(on);
  const auto position_bits = static_cast<unsigned>(std::bit_width(n - 1));
  const auto bits = position_bits
                    + std::max(1u, static_cast<unsigned>(std::bit_width(
                                     static_cast<std::uint64_t>(rows))));
  if (bits > 64)
    throw device_error{std::to_string(n) + " rows of a table of "
                       + std::to_string(rows)
                       + " rows cannot be sorted on a device"};
  auto first = list_of_words(n, on), second = list_of_words(n, on);
  auto* const parts = mutable_elements<std::uint64_t>(first);
  const auto* const numbers = elements<std::int64_t>(indices);
  check(for_each(stream, n,
                 [=] __device__(std::size_t i) {
                   const auto row = numbers[i];
                   const bool is_row = row >= 0 && row < rows;
                   parts[i] =
                     std::uint64_t(is_row ? row : rows) << position_bits | i;
                 }),
        "a kernel that sorts rows");
  cub::DoubleBuffer<std::uint64_t> buffers{
    parts, mutable_elements<std::uint64_t>(second)};
  run_with_memory(
    on, "cub::DeviceRadixSort", [&](void* memory, std::size_t& bytes) {
      return cub::DeviceRadixSort::SortKeys(memory, bytes, buffers, n,
                                            static_cast<int>(position_bits),
                                            static_cast<int>(bits), stream);
    });
  return {buffers.Current() == parts ? first : second, position_bits, rows};
}

void sum_up(tensor& list) {
  auto* const numbers = mutable_elements<std::int64_t>(list);
  run_with_memory(
    list.device(), "cub::DeviceScan", [&](void* memory, std::size_t& bytes) {
      return cub::DeviceScan::InclusiveSum(memory, bytes, numbers, numbers,
                                           list.size(),
                                           compute_stream(list.device()));
    });
}

} // namespace troupe::cuda
