#include "troupe/strategies/collective/chunk_reducer.hpp"

#include "troupe/strategies/collective/reduce_kernels.hpp"

namespace troupe::collective {

chunk_reducer::chunk_reducer(const local_placement& placed)
  : placement_{placed},
    subtree_ends_(placed.job.replicas()),
    buffers_(placed.job.replicas()),
    sums_(placed.job.replicas()) {
  for (std::uint32_t p = 0; p < placed.job.processes(); ++p)
    if (p != placed.process)
      for (const auto& subtree : subtrees_of(placed.job, p))
        subtree_ends_[subtree.begin] = subtree.end;
  for (const auto r : placed.replicas())
    subtree_ends_[r] = r + 1;
}

const tensor& chunk_reducer::buffer_of(std::uint32_t first) {
  auto& buffer = buffers_[first];
  if (!buffer)
    buffer = tensor{shape{std::int64_t(max_packet_bytes)}, dtype::uint8};
  return buffer;
}

void chunk_reducer::reduce(const operation& op, std::uint32_t chunk) {
  const chunk_range range{op.spec.type, op.chunk_offset(chunk),
                          op.chunk_bytes(chunk)};
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    sums_[placement_.replicas()[i]] = op.inputs[i].raw() + range.offset;
  sum_subtrees({subtree_ends_, sums_}, range,
               op.output.raw() == op.inputs[0].raw(),
               op.output.raw() + range.offset);
}

} // namespace troupe::collective
