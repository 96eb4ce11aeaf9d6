#include "troupe/tensors/context.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/dense.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/unary.hpp"
#include "troupe/tensors/optim/initializers.hpp"
#include "troupe/tensors/optim/update_rules.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/denormals.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cfenv>
#include <stdexcept>
#include <thread>

extern "C" void GOMP_parallel(void (*fn)(void*), void* argument,
                              unsigned threads, unsigned flags);

namespace troupe {
namespace {

using test::flushes_denormals;

/// 2^-100: the square is 0 in float32, and the product with 2^-40 is denormal.
constexpr float tiny = 0x1p-100f;
constexpr float tinier = 0x1p-40f;
constexpr float denormal = 0x1p-140f;

bool all_zero(const tensor& x) {
  return std::ranges::all_of(x.data<float>(),
                             [](float v) { return test::bits_of(v) == 0; });
}

tensor filled(const shape& dims, float value) {
  tensor x{dims};
  std::ranges::fill(x.mutable_data<float>(), value);
  return x;
}

class FlushDenormals : public ::testing::Test {
protected:
  void SetUp() override {
    if (!test::denormals_can_be_flushed)
      GTEST_SKIP() << "this processor has no mode that flushes denormals";
    ASSERT_FALSE(flushes_denormals());
  }
  void TearDown() override { EXPECT_FALSE(flushes_denormals()); }
};

TEST_F(FlushDenormals, ReadsAndReturnsDenormalsAsZeroWhileAnObjectLives) {
  volatile float a = tiny, b = tinier, c = denormal, large = 0x1p100f;
  EXPECT_NE(a * b, 0);
  EXPECT_NE(c * large, 0);
  {
    const flush_denormals flushing;
    EXPECT_EQ(test::bits_of(a * b), 0u);
    EXPECT_EQ(test::bits_of(c * large), 0u);
    volatile double wide = 0x1p-1000, wider = 0x1p-60;
    EXPECT_EQ(wide * wider, 0);
  }
  EXPECT_NE(a * b, 0);
  EXPECT_NE(c * large, 0);
}

TEST_F(FlushDenormals, NestedObjectsRestoreTheModeOfTheirScope) {
  const flush_denormals outer;
  {
    const flush_denormals inner;
    EXPECT_TRUE(flushes_denormals());
  }
  EXPECT_TRUE(flushes_denormals());
}

TEST_F(FlushDenormals, KeepsTheExceptionFlagsOfTheProcessor) {
  std::feclearexcept(FE_ALL_EXCEPT);
  {
    const flush_denormals flushing;
    volatile float one = 1, zero = 0;
    one = one / zero;
  }
  EXPECT_NE(std::fetestexcept(FE_DIVBYZERO), 0);
  std::feclearexcept(FE_ALL_EXCEPT);
}

TEST_F(FlushDenormals, HasNoEffectOnOtherThreads) {
  bool seen = true;
  std::thread other;
  {
    std::atomic<bool> begun = false;
    other = std::thread{[&] {
      begun.wait(false);
      seen = flushes_denormals();
    }};
    const flush_denormals flushing;
    begun = true;
    begun.notify_one();
    other.join();
  }
  EXPECT_FALSE(seen);
}

// -- outside of steps ---------------------------------------------------------

TEST_F(FlushDenormals, OpsFlushOutsideOfSteps) {
  EXPECT_TRUE(all_zero(filled({64}, tiny) * filled({64}, tinier)));
  EXPECT_TRUE(all_zero(filled({64}, denormal) + filled({64}, 0)));
  EXPECT_TRUE(all_zero(reduce_sum(filled({64}, denormal))));
  EXPECT_TRUE(all_zero(exp(filled({64}, -95.0f))));
  const auto wide = tensor::full({4}, 0x1p-1000, dtype::float64);
  const auto product = wide * tensor::full({4}, 0x1p-60, dtype::float64);
  EXPECT_EQ(product.data<double>()[3], 0);
  EXPECT_TRUE(all_zero(tensor::full({4}, 0x1p-140)));
  EXPECT_TRUE(
    all_zero(tensor::full({4}, 0x1p-140, dtype::float64).as(dtype::float32)));
}

TEST_F(FlushDenormals, GradientsFlushOutsideOfStepsAndHooksDoNot) {
  parameters owner{{{"x", {64}}, {"unused", {1}}}};
  const auto& variables = owner.variables();
  auto value = variables[0].value();
  std::ranges::fill(value.mutable_data<float>(), tiny);
  tape t;
  const auto loss = reduce_sum(variables[0].value() * filled({64}, denormal));
  int calls = 0;
  t.gradient_into_variables(loss, variables, [&](std::size_t) {
    ++calls;
    EXPECT_FALSE(flushes_denormals());
  });
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(all_zero(variables[0].gradient()));
}

TEST_F(FlushDenormals, UpdateRulesFlush) {
  for (const auto& rule : {update_rule{sgd{.learning_rate = tinier}},
                           update_rule{adam{.learning_rate = 0}}}) {
    tensor x = filled({64}, 0), g = filled({64}, tiny), m = filled({64}, 0),
           v = filled({64}, denormal);
    const std::array<std::span<float>, 2> slots{m.mutable_data<float>(),
                                                v.mutable_data<float>()};
    rule.apply(x.mutable_data<float>(), g.data<float>(),
               std::span{slots}.first(rule.slots()), 1, rule.learning_rate());
    EXPECT_TRUE(all_zero(x)) << rule.name();
    EXPECT_TRUE(rule.slots() < 2 || all_zero(v));
  }
}

TEST_F(FlushDenormals, InitializersFlush) {
  tensor x{{1000}};
  initializer{"normal", std::array{hyperparameter{"deviation", 0x1p-130f}}}
    .fill(x.mutable_data<float>(), x.dims(), initial_key(1, 0));
  EXPECT_TRUE(all_zero(x));
}

TEST_F(FlushDenormals, FunctionsThatThrowRestoreTheMode) {
  EXPECT_THROW(filled({2}, 1) + filled({3}, 1), std::logic_error);
  EXPECT_FALSE(flushes_denormals());
}

// -- threads of ops -----------------------------------------------------------

/// Runs `fn` on the threads that oneDNN uses for an op of this thread.
template <class F>
void on_op_threads(unsigned threads, F fn) {
  GOMP_parallel([](void* x) { (*static_cast<F*>(x))(); }, &fn, threads, 0);
}

TEST_F(FlushDenormals, ThreadsOfAnOpFlushDuringTheOpOnly) {
  use_threads(3);
  std::atomic<int> flushing = 0, threads = 0;
  const auto count = [&] {
    on_op_threads(3, [&] {
      ++threads;
      flushing += flushes_denormals();
    });
  };
  count(); // Makes the threads in the mode of the caller.
  EXPECT_EQ(flushing, 0);
  // Each thread computes some of the rows.
  const auto y = matmul(filled({512, 64}, tiny), filled({64, 512}, tinier));
  EXPECT_TRUE(all_zero(y));
  count();
  EXPECT_EQ(flushing, 0);
  {
    const flush_denormals outer;
    matmul(filled({512, 64}, tiny), filled({64, 512}, tinier));
    count();
  }
  EXPECT_EQ(flushing, 3);
  count();
  EXPECT_EQ(flushing, 3);
  EXPECT_EQ(threads, 12);
  use_threads(1);
}

TEST_F(FlushDenormals, AddedThreadsOfOpsFlushToo) {
  use_threads(2);
  const auto product = [] {
    return matmul(filled({512, 64}, tiny), filled({64, 512}, tinier));
  };
  std::atomic<int> flushing = 0;
  const auto count = [&](unsigned threads) {
    flushing = 0;
    on_op_threads(threads, [&] { flushing += flushes_denormals(); });
  };
  count(4);
  {
    const flush_denormals outer;
    EXPECT_TRUE(all_zero(product()));
    use_threads(4);
    EXPECT_TRUE(all_zero(product()));
    count(4);
    EXPECT_EQ(flushing, 4);
  }
  count(4);
  EXPECT_EQ(flushing, 0);
  use_threads(1);
}

} // namespace
} // namespace troupe
