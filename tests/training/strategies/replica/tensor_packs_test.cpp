#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"
#include "troupe/training/strategies/replica/tensor_packs.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace {

using namespace troupe;
using troupe::test::becomes_true;

std::vector<std::uint32_t> numbers(const std::vector<std::size_t>& bytes,
                                   std::size_t bytes_per_pack) {
  const auto of = pack_indices(bytes, bytes_per_pack);
  return {of.begin(), of.end()};
}

using list = std::vector<std::uint32_t>;

TEST(TensorPacks, NewPackOpensWhenThePreviousExceedsTheLimit) {
  EXPECT_EQ(numbers({4, 4, 4, 4}, 8), (list{0, 0, 0, 1}));
  EXPECT_EQ(numbers({4, 4, 4, 4}, 7), (list{0, 0, 1, 1}));
  EXPECT_EQ(numbers({4, 4, 4, 4}, 1), (list{0, 1, 2, 3}));
  EXPECT_EQ(numbers({4, 4, 4, 4}, 100), (list{0, 0, 0, 0}));
  EXPECT_EQ(numbers({0, 0, 100, 4}, 8), (list{0, 0, 0, 1}));
  EXPECT_EQ(numbers({}, 8), list{});
}

TEST(TensorPacks, LargeTensorsAreSeparateByDefault) {
  constexpr std::size_t large = 64 << 10;
  EXPECT_EQ(numbers({4, large, 4, large - 1, large}, 0), (list{0, 1, 0, 0, 2}));
  EXPECT_EQ(numbers({4, large, 4}, 1 << 20), (list{0, 0, 0}));
}

TEST(TensorPacks, ThousandSmallTensorsMakeFewPacks) {
  const auto of = numbers(std::vector<std::size_t>(1000, 4096), 0);
  EXPECT_EQ(of.back(), 3u);
}

TEST(TensorPacks, UnpackingInvertsPacking) {
  tensors xs;
  for (std::int64_t n = 0; n < 40; ++n)
    xs.push_back(tensor::full({n, 3}, double(n)));
  for (const std::size_t limit : {0, 1, 200, 5000}) {
    const tensor_packs p{xs, limit};
    const auto back = p.unpacked(p.packs());
    ASSERT_EQ(back.size(), xs.size());
    for (std::size_t i = 0; i < xs.size(); ++i)
      EXPECT_TRUE(same_bits(back[i], xs[i])) << i << " with " << limit;
  }
}

/// Reduces random tensors of three replicas. Returns the results of replica 1.
tensors sums(runtime& actors, std::size_t bytes_per_pack, reduce_op op) {
  const mirrored_strategy three{actors, {"cpu:0", "cpu:1", "cpu:2"}};
  three.state()->bytes_per_pack = bytes_per_pack;
  return three.run([&](replica_context& self) {
    tensors xs;
    random_stream draw{{.seed = 1, .replica = self.replica_id()}};
    for (std::int64_t n = 1; n < 30; ++n) {
      xs.push_back(tensor{{n, n}});
      for (auto& e : xs.back().mutable_data<float>())
        e = draw.uniform(-1, 1);
      if (op == sum && n % 7 == 0) // Adds a tensor of another dtype.
        xs.push_back(tensor::full({2}, double(n), dtype::int64));
    }
    return self.all_reduce(op, xs);
  })[1];
}

TEST(TensorPacks, PackingChangesNoBitOfASum) {
  runtime actors;
  for (const auto op : {sum, mean}) {
    const auto alone = sums(actors, 1, op);
    for (const std::size_t limit : {0, 100, 2000, 1 << 20}) {
      const auto together = sums(actors, limit, op);
      ASSERT_EQ(together.size(), alone.size());
      for (std::size_t i = 0; i < alone.size(); ++i)
        EXPECT_TRUE(same_bits(together[i], alone[i])) << i << " with " << limit;
    }
  }
}

// -- options of one call -----------------------------------------------------

TEST(CallOptions, ApplyToOneCallAndChangeNoBit) {
  runtime actors;
  const mirrored_strategy two{actors, {"cpu:0", "cpu:1"}};
  two.run([](replica_context& self) {
    tensors xs;
    for (std::int64_t n = 1; n < 9; ++n)
      xs.push_back(tensor::full({n}, 0.1 * double(n + self.replica_id())));
    const auto usual = self.all_reduce(sum, xs);
    const auto packed = self.all_reduce(
      sum, xs,
      {.bytes_per_pack = 8,
       .timeout = std::chrono::minutes{1},
       .implementation = communication_options::implementations::ring});
    for (std::size_t i = 0; i < xs.size(); ++i)
      EXPECT_TRUE(same_bits(usual[i], packed[i])) << i;
    EXPECT_EQ(
      self.all_gather(xs[0], 0, {.timeout = std::chrono::minutes{1}}).size(),
      2u);
    EXPECT_THROW(self.all_reduce(sum, xs, {.bytes_per_pack = -1}),
                 std::invalid_argument);
    EXPECT_THROW(
      self.all_reduce(sum, xs, {.timeout = std::chrono::milliseconds{-1}}),
      std::invalid_argument);
  });
}

std::string error_if_last_replica_differs(const strategy& two,
                                          const call_options& x) {
  try {
    two.run([&](replica_context& self) {
      self.all_reduce(sum, tensor::full({3}, 1),
                      self.replica_id() == 1 ? x : call_options{});
    });
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

TEST(CallOptions, DifferencesBetweenReplicasEndTheStep) {
  runtime actors;
  const auto devices = std::vector<std::string>{"cpu:0", "cpu:1"};
  for (int index = 0; index < 2; ++index) {
    const auto two = index == 0 ? strategy{mirrored_strategy{actors, devices}}
                                : strategy{turns(2)};
    for (const call_options& x :
         {call_options{.bytes_per_pack = 8},
          call_options{.timeout = std::chrono::minutes{1}}}) {
      const auto said = error_if_last_replica_differs(two, x);
      EXPECT_NE(said.find("do not pass the same options"), said.npos) << said;
    }
  }
}

/// Returns the error of an all-reduce in which replica 1 passes other tensors.
std::string error_if_tensors_differ(const strategy& two, const tensors& usual,
                                    const tensors& odd) {
  try {
    two.run([&](replica_context& self) {
      self.all_reduce(sum, self.replica_id() == 1 ? odd : usual);
    });
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

TEST(AllReduce, OtherDtypesOrNumbersOfTensorsEndTheStep) {
  runtime actors;
  const auto f32 = tensor::full({3}, 1);
  const auto i32 = tensor::full({3}, 1, dtype::int32);
  const auto f64 = tensor::full({3}, 1, dtype::float64);
  const auto has = [&](const tensors& usual, const tensors& odd,
                       const std::vector<std::string>& texts) {
    for (const auto& two :
         {strategy{mirrored_strategy{actors, {"cpu:0", "cpu:1"}}},
          strategy{turns(2)}})
      for (const bool swapped : {false, true}) {
        const auto said = swapped ? error_if_tensors_differ(two, odd, usual)
                                  : error_if_tensors_differ(two, usual, odd);
        for (const auto& text : texts)
          EXPECT_NE(said.find(text), said.npos)
            << "\"" << text << "\" is missing in: " << said;
      }
  };
  for (const auto& other : {i32, f64})
    has({f32}, {other},
        {" of float32[3]", " of " + to_string(other.spec()), "replica 0",
         "replica 1", "must call the same collectives"});
  has({f32, f32}, {f32}, {" of float32[3]", " of 2 tensors", "replica 1"});
  has({i32, i32}, {i32}, {" of int32[3]", " of 2 tensors", "replica 1"});
  has({f32, i32}, {f32}, {" of float32[3]", " of 2 tensors", "replica 1"});
  has({f32, i32}, {i32, f32},
      {"tensor 0 is int32[3]", "tensor 0 is float32[3]",
       "must call the same collectives"});
}

TEST(CallOptions, TimeoutEndsAWaitInOneProcess) {
  runtime actors;
  const mirrored_strategy two{actors, {"cpu:0", "cpu:1"}};
  std::atomic<bool> over{false};
  try {
    two.run([&](replica_context& self) {
      const struct release {
        ~release() { of = true; }
        std::atomic<bool>& of;
      } at_end{over};
      if (self.replica_id() == 1)
        becomes_true([&] { return over.load(); });
      if (self.replica_id() == 0)
        self.all_reduce(sum, tensor::full({3}, 1),
                        {.timeout = std::chrono::milliseconds{30}});
    });
    ADD_FAILURE() << "no error";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::stalled);
    EXPECT_NE(std::string{e.what()}.find(
                "replica 0 waited for the sum of bucket 0 in step 0 for 30 ms, "
                "the timeout of its call"),
              std::string::npos)
      << e.what();
  }
}

} // namespace
