#include "troupe/strategies/collective/chunk_reducer.hpp"
#include "troupe/strategies/collective/reduce_kernels.hpp"
#include "troupe/tests/strategies/collective/process_parts.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::collective;
using namespace troupe::collective::testing;

namespace {

constexpr std::size_t elements = 3000;
constexpr std::size_t skipped = 500; ///< Elements before the chunk.

chunk_range chunk_from(dtype type) {
  return {type, skipped * size_of(type), (elements - skipped) * size_of(type)};
}

template <class T>
void expect_reduction(std::uint32_t replicas) {
  const auto inputs = inputs_of<T>(replicas, elements, replicas);
  tensor out = tensor::zeros({std::int64_t(elements - skipped)}, dtype_of<T>);
  sum_inputs(inputs, chunk_from(dtype_of<T>), out.raw());
  const auto wanted = oracle(inputs);
  for (std::size_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(out.data<T>()[i], wanted.template data<T>()[skipped + i])
      << replicas << " replicas, element " << i;
}

} // namespace

TEST(ReduceKernels, SumInputsInTreeOrder) {
  for (std::uint32_t replicas = 1; replicas < 8; ++replicas) {
    expect_reduction<float>(replicas);
    expect_reduction<double>(replicas);
  }
}

TEST(ReduceKernels, AddTheSumOfTheInputsToWhatWasReceived) {
  const auto inputs = inputs_of<float>(3, elements, 4);
  const auto received = input_of<float>(elements - skipped, 77);
  auto out = received.clone(); // the sum may overwrite what was received
  add_inputs(out.raw(), inputs, chunk_from(dtype::float32), out.raw());
  const auto own = oracle(inputs);
  for (std::size_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(out.data<float>()[i],
              received.data<float>()[i] + own.data<float>()[skipped + i])
      << i;
}

TEST(ReduceKernels, SumSubtreesAsTheWholeTree) {
  const auto inputs = inputs_of<float>(7, elements, 5);
  const auto first = tree_of(inputs, 0, 2), second = tree_of(inputs, 4, 6);
  const std::vector<std::uint32_t> ends{2, 0, 3, 4, 6, 0, 7};
  const std::vector<const std::byte*> sums{
    first.raw(),  nullptr, inputs[2].raw(), inputs[3].raw(),
    second.raw(), nullptr, inputs[6].raw()};
  tensor out{shape{std::int64_t(elements)}};
  const chunk_range whole{dtype::float32, 0, out.bytes()};
  sum_subtrees({ends, sums}, whole, false, out.raw());
  EXPECT_TRUE(same_bits(out, oracle(inputs)));
}

TEST(ReduceKernels, OverwriteAnySubtreeInPlace) {
  for (const std::uint32_t replicas : {2, 3, 6})
    for (std::uint32_t place = 0; place < replicas; ++place) {
      SCOPED_TRACE(std::to_string(place) + " of " + std::to_string(replicas));
      const auto inputs = inputs_of<float>(replicas, elements, 6);
      auto out = inputs[place].clone();
      std::vector<std::uint32_t> ends;
      std::vector<const std::byte*> sums;
      for (std::uint32_t r = 0; r < replicas; ++r) {
        ends.push_back(r + 1);
        sums.push_back(r == place ? out.raw() : inputs[r].raw());
      }
      const chunk_range whole{dtype::float32, 0, out.bytes()};
      sum_subtrees({ends, sums}, whole, true, out.raw());
      EXPECT_TRUE(same_bits(out, oracle(inputs)));
    }
}

TEST(ChunkReducer, AddsCollectedSubtreesToLocalInputs) {
  const placement job{{{0, 1}, {2, 5}, {3, 4}}};
  const local_placement placed{job, 1};
  const auto inputs = inputs_of<float>(6, elements, 8);
  const auto first = tree_of(inputs, 0, 2);
  operation op;
  op.spec = inputs[0].spec();
  op.chunks = {skipped, 6, false};
  op.inputs = {inputs[2], inputs[5]};
  op.output = tensor::zeros({std::int64_t(elements)});
  chunk_reducer reducer{placed};
  const auto offset = op.chunk_offset(4);
  reducer.collect(0, first.raw() + offset);
  reducer.collect(3, inputs[3].raw() + offset);
  reducer.collect(4, inputs[4].raw() + offset);
  reducer.reduce(op, 4);
  const auto wanted = oracle(inputs);
  for (std::size_t i = 0; i < elements; ++i)
    ASSERT_EQ(op.output.data<float>()[i],
              i / skipped == 4 ? wanted.data<float>()[i] : 0)
      << i;
}

TEST(ChunkReducer, KeepsItsBuffers) {
  const local_placement placed{placement::contiguous({1, 2}), 0};
  chunk_reducer reducer{placed};
  EXPECT_EQ(reducer.buffer_of(1).bytes(), max_packet_bytes);
  EXPECT_EQ(reducer.buffer_of(1).raw(), reducer.buffer_of(1).raw());
  EXPECT_NE(reducer.buffer_of(1).raw(), reducer.buffer_of(2).raw());
}
