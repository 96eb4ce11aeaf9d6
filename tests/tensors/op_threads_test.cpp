#include "troupe/tensors/context.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/op_threads.hpp"
#include "troupe/tensors/ops/add_in_place.hpp"
#include "troupe/tensors/ops/bias_activation.hpp"
#include "troupe/tensors/ops/dense.hpp"
#include "troupe/tensors/ops/dropout.hpp"
#include "troupe/tensors/ops/max_pool2d.hpp"
#include "troupe/tensors/ops/unary.hpp"
#include "troupe/tensors/optim/update_rules.hpp"
#include "troupe/tensors/random.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/denormals.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace troupe {
namespace {

constexpr auto large = 4 * min_parallel_elements + 5; // not a multiple of 64

/// Sets the number of threads of ops during the lifetime of this object.
struct op_thread_scope {
  explicit op_thread_scope(int threads) { use_threads(threads); }
  ~op_thread_scope() { use_threads(1); }
};

tensor noise(const shape& dims, std::uint32_t number) {
  tensor x{dims};
  fill_uniform(x.mutable_data<float>(), -1, 1, {.seed = 7, .op = number});
  return x;
}

/// Returns the bytes of some tensors, in order.
std::string bytes_of(const std::vector<tensor>& xs) {
  std::string out;
  for (const auto& x : xs)
    out.append(reinterpret_cast<const char*>(x.raw()), x.bytes());
  return out;
}

void expect_same_bits_with_any_threads(
  const std::function<std::vector<tensor>()>& compute) {
  std::string expected;
  {
    const op_thread_scope scope{1};
    expected = bytes_of(compute());
  }
  for (const int threads : {2, 3}) {
    const op_thread_scope scope{threads};
    EXPECT_TRUE(bytes_of(compute()) == expected) << threads << " threads";
  }
}

/// Returns the result of an op on `x` and the gradient of x, in this order.
template <class F>
std::vector<tensor> with_gradient(const tensor& x, F fn) {
  parameters owner{{{"x", x.dims()}}};
  owner.variables()[0].value().copy_from(x);
  tape t;
  const auto y = fn(owner.variables()[0].value());
  t.gradient_into_variables(y, owner.variables());
  return {y, owner.variables()[0].gradient()};
}

// -- ranges -------------------------------------------------------------------

TEST(OpThreads, RangesCoverEachElementOnce) {
  for (const int threads : {1, 2, 3, 5})
    for (const std::size_t n : {0u, 1u, 63u, 64u, 65u, 1000u})
      for (const std::size_t multiple : {1u, 64u}) {
        const op_thread_scope scope{threads};
        std::vector<int> visits(n);
        std::atomic<bool> aligned = true;
        for_ranges(
          n, min_parallel_elements,
          [&](std::size_t begin, std::size_t end) {
            if (begin % multiple != 0 || begin >= end)
              aligned = false;
            for (auto i = begin; i < end; ++i)
              ++visits[i];
          },
          multiple);
        EXPECT_TRUE(aligned) << n << " by " << multiple;
        EXPECT_EQ(std::ranges::count(visits, 1), std::ptrdiff_t(n))
          << n << " by " << multiple << ", " << threads << " threads";
      }
}

std::size_t threads_of(std::size_t n, std::size_t elements) {
  std::mutex lock;
  std::set<std::thread::id> threads;
  for_ranges(n, elements, [&](std::size_t, std::size_t) {
    const std::lock_guard hold{lock};
    threads.insert(std::this_thread::get_id());
  });
  return threads.size();
}

TEST(OpThreads, EachThreadOfTheOpsHasARange) {
  const op_thread_scope scope{3};
  EXPECT_EQ(threads_of(large, large), 3u);
  EXPECT_EQ(threads_of(2, large), 2u);
}

TEST(OpThreads, SmallLoopsStayOnTheCallingThread) {
  {
    const op_thread_scope scope{3};
    EXPECT_EQ(threads_of(100, min_parallel_elements - 1), 1u);
  }
  const op_thread_scope scope{1};
  EXPECT_EQ(threads_of(large, large), 1u);
}

TEST(OpThreads, ARangeIsNotDividedAgain) {
  const op_thread_scope scope{3};
  std::atomic<std::size_t> threads = 0, elements = 0;
  for_elements(large, [&](std::size_t begin, std::size_t end) {
    threads += threads_of(large, large);
    elements += end - begin;
  });
  EXPECT_EQ(threads, 3u);
  EXPECT_EQ(elements, large);
}

/// Returns how many of 3 ranges run on threads that flush denormals.
int ranges_that_flush() {
  std::atomic<int> count = 0;
  for_elements(large, [&](std::size_t, std::size_t) {
    count += test::flushes_denormals();
  });
  return count;
}

TEST(OpThreads, RangesFlushDenormalsIfTheCallerDoes) {
  if (!test::denormals_can_be_flushed)
    GTEST_SKIP() << "this processor has no mode that flushes denormals";
  // A new thread has no threads for its ops yet. They are made in the mode of
  // the caller.
  for (const bool made_while_flushing : {true, false})
    std::thread{[&] {
      const op_thread_scope scope{3};
      if (!made_while_flushing) {
        EXPECT_EQ(ranges_that_flush(), 0);
      }
      {
        const flush_denormals outer;
        EXPECT_EQ(ranges_that_flush(), 3);
      }
      EXPECT_EQ(ranges_that_flush(), 0);
    }}.join();
}

// -- bits ---------------------------------------------------------------------

TEST(OpThreads, DoNotChangeTheBitsOfUpdates) {
  for (const auto& rule :
       {update_rule{sgd{}}, update_rule{sgd{.momentum = 0.9f}},
        update_rule{sgd{.momentum = 0.9f, .nesterov = true}},
        update_rule{adam{}}, update_rule{adamw{}}, update_rule{adagrad{}},
        update_rule{ftrl{.l1_regularization_strength = 0.5f}}}) {
    SCOPED_TRACE(rule.name());
    expect_same_bits_with_any_threads([&] {
      const auto n = std::int64_t{large};
      std::vector<tensor> state{noise({n}, 0), noise({n}, 1), noise({n}, 2)};
      // The second slot of adam, and the first one of adagrad and ftrl, hold
      // squares.
      for (std::size_t s = 1; s < state.size(); ++s)
        for (auto& v : state[s].mutable_data<float>())
          v = v * v;
      const std::array<std::span<float>, 2> slots{
        state[1].mutable_data<float>(), state[2].mutable_data<float>()};
      const auto gradient = noise({n}, 3);
      for (std::uint64_t step = 1; step <= 2; ++step)
        rule.apply(state[0].mutable_data<float>(), gradient.data<float>(),
                   std::span{slots}.first(rule.slots()), step, 0.1f, 0.5f);
      return state;
    });
  }
}

TEST(OpThreads, DoNotChangeTheBitsOfPooling) {
  for (const auto& options :
       {pool_options{}, pool_options{3, 2, 1, 1, padding::same}})
    expect_same_bits_with_any_threads([&] {
      return with_gradient(noise({7, 33, 32, 11}, 4), [&](const tensor& x) {
        return max_pool2d(x, options);
      });
    });
}

TEST(OpThreads, DoNotChangeTheBitsOfDropout) {
  expect_same_bits_with_any_threads([] {
    context own;
    own.random = {1, 2, 3, 4};
    const context_scope installed{own};
    return with_gradient(noise({std::int64_t{large}}, 5), [](const tensor& x) {
      return dropout(x, 0.3f, true);
    });
  });
}

TEST(OpThreads, DoNotChangeTheBitsOfElementwiseOps) {
  for (const auto& fn : {relu, sigmoid, tanh})
    expect_same_bits_with_any_threads(
      [&] { return with_gradient(noise({std::int64_t{large}}, 6), fn); });
}

// Each product of this dense layer has one term, so its bits do not depend on
// oneDNN.
TEST(OpThreads, DoNotChangeTheBitsOfReluInALayer) {
  expect_same_bits_with_any_threads([] {
    const auto x = noise({261, 1}, 7), w = noise({1, 259}, 8),
               b = noise({259}, 9);
    return std::vector{dense(x, w, b, activation::relu)};
  });
}

TEST(OpThreads, DoNotChangeTheBitsOfMasksAndBiasGradients) {
  for (const bool has_bias : {true, false})
    for (const auto f : {activation::relu, activation::none})
      for (const bool accumulate : {false, true})
        expect_same_bits_with_any_threads([&] {
          op_call call;
          call.out = {noise({261, 259}, 10)};
          call.grad_out = {noise({261, 259}, 11)};
          std::vector<tensor> gradients(3);
          if (has_bias)
            gradients[2] = noise({259}, 12);
          call.grad_in = gradients;
          const std::array adds{false, false, accumulate};
          call.accumulate = adds;
          ops::mask_and_sum_columns(call, f);
          return std::vector{call.grad_out[0],
                             has_bias ? gradients[2] : tensor{shape{0}}};
        });
}

TEST(OpThreads, DoNotChangeTheBitsOfAdditions) {
  expect_same_bits_with_any_threads([] {
    auto sum = noise({std::int64_t{large}}, 13);
    add_in_place(sum, noise({std::int64_t{large}}, 14));
    return std::vector{sum};
  });
}

} // namespace
} // namespace troupe
