#pragma once

#include "troupe/tests/strategies/collective/packet_queues.hpp"

namespace troupe::collective::testing {

inline constexpr collective_options ringed{
  collective_options::algorithm_kind::ring};

/// Returns the sum that the ring gives for the k-th collective of a step (k
/// from 0), computed element by element.
template <class T>
tensor ring_sum_of(const tensors& inputs, const placement& layout,
                   std::uint32_t k) {
  const auto processes = layout.processes();
  tensors local_sums;
  for (std::uint32_t p = 0; p < processes; ++p) {
    tensors local_inputs;
    for (const auto r : layout.replicas_of(p))
      local_inputs.push_back(inputs[r]);
    local_sums.push_back(oracle(local_inputs));
  }
  tensor out{inputs[0].spec()};
  const auto chunks = chunking_of(out.size(), dtype_of<T>, processes,
                                  collective_options::algorithm_kind::ring);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto c = std::uint32_t(i / chunks.chunk_elements);
    T sum = local_sums[(k + c) % processes].template data<T>()[i];
    for (std::uint32_t hop = 1; hop < processes; ++hop)
      sum = sum + local_sums[(k + c + hop) % processes].template data<T>()[i];
    out.template mutable_data<T>()[i] = sum;
  }
  return out;
}

} // namespace troupe::collective::testing
