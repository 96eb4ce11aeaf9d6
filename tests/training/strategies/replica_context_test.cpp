#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/training/small_jobs.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;

/// Expects that no result of a collective shares memory with an argument. The
/// arguments are overwritten after the calls.
void expect_unshared_results(replica_context& self) {
  const auto replicas = float(self.num_replicas_in_sync());
  const auto floats = tensor::full({4}, 1), integers = tensor::full({2}, 1);
  const auto whole = tensor::full({}, 1, dtype::int32);
  tensors both;
  both.push_back(floats);
  both.push_back(integers);
  const auto total = self.all_reduce(sum, floats);
  const auto average = self.all_reduce(mean, floats);
  const auto totals = self.all_reduce(sum, both);
  const auto packs = self.all_reduce(sum, both, {.bytes_per_pack = 1});
  const auto count = self.all_reduce(sum, whole);
  const auto gathered = self.all_gather(integers);
  const auto tensors_of_all = self.all_gather_list(integers);
  const auto root = self.broadcast(integers);
  auto writable = floats, writable_y = integers, writable_whole = whole;
  writable.mutable_data<float>()[0] = 100;
  writable_y.mutable_data<float>()[0] = 100;
  writable_whole.mutable_data<std::int32_t>()[0] = 100;
  EXPECT_EQ(total.data<float>()[0], replicas);
  EXPECT_EQ(average.data<float>()[0], 1.0f);
  EXPECT_EQ(totals[0].data<float>()[0], replicas);
  EXPECT_EQ(totals[1].data<float>()[0], replicas);
  EXPECT_EQ(packs[0].data<float>()[0], replicas);
  EXPECT_EQ(packs[1].data<float>()[0], replicas);
  EXPECT_EQ(count.item<std::int32_t>(), std::int32_t(replicas));
  EXPECT_EQ(gathered.data<float>()[0], 1.0f);
  EXPECT_EQ(tensors_of_all[0].data<float>()[0], 1.0f);
  EXPECT_EQ(root.data<float>()[0], 1.0f);
}

TEST(ReplicaContext, ResultsShareNoMemoryWithArguments) {
  runtime actors;
  expect_unshared_results(*get_replica_context());
  default_strategy{}.run(expect_unshared_results);
  for (const std::uint32_t replicas : {1, 2, 3})
    turns(replicas).run(expect_unshared_results);
  mirrored_strategy{actors, {"cpu:0"}}.run(expect_unshared_results);
  mirrored_strategy{actors, {"cpu:0", "cpu:1"}}.run(expect_unshared_results);
}

} // namespace
