#include "troupe/actors/core/fiber.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/hosts.hpp"

#include <array>
#include <stdexcept>
#include <string>
#include <thread>

namespace troupe {
namespace {

class FiberContext : public test::OnEachHost {};

INSTANTIATE_TEST_SUITE_P(On, FiberContext, test::all_hosts, test::name_of_host);

TEST_P(FiberContext, TheCurrentContextBelongsToTheFiber) {
  run_on_host([] {
    auto& thread_context = current_context();
    context context_of_b;
    const auto visit = [](std::uint32_t id) {
      current_context().copy_index = id;
      fiber::park();
      EXPECT_EQ(current_context().copy_index, id);
      context inner;
      inner.copy_index = 10 * id;
      context_scope scope{inner};
      fiber::park();
      EXPECT_EQ(current_context().copy_index, 10 * id);
    };
    fiber a{[&] { visit(1); }}, b{[&] { visit(2); }, &context_of_b};
    while (!a.done() || !b.done())
      for (auto* it : {&a, &b})
        if (!it->done()) {
          it->resume();
          EXPECT_EQ(&current_context(), &thread_context);
        }
    EXPECT_EQ(context_of_b.copy_index, 2u);
    EXPECT_EQ(thread_context.copy_index, 0u);
  });
}

TEST_P(FiberContext, ATapeRecordsOnlyTheOpsOfItsFiber) {
  run_on_host([] {
    // Computes the derivative of x^3 + x. The fiber parks after each op.
    const auto differentiate = [](double at, double& found) {
      tape t;
      const auto x = t.watch(tensor::of<double>({1}, {at}));
      auto y = x * x;
      fiber::park();
      y = y * x;
      fiber::park();
      y = y + x;
      fiber::park();
      found = t.gradient(y, std::array{x})[0].item<double>();
    };
    double of_a = 0, of_b = 0;
    fiber a{[&] { differentiate(2, of_a); }},
      b{[&] { differentiate(3, of_b); }};
    for (int i = 0; i < 4; ++i) {
      a.resume();
      EXPECT_EQ(current_context().recording, nullptr);
      b.resume();
      EXPECT_EQ(current_context().recording, nullptr);
    }
    EXPECT_EQ(of_a, 13);
    EXPECT_EQ(of_b, 28);
  });
}

TEST_P(FiberContext, AFiberCanResumeAnother) {
  run_on_host([] {
    std::string order;
    fiber outer{[&] {
      fiber inner{[&] {
        order += "b";
        fiber::park();
        order += "d";
      }};
      order += "a";
      inner.resume();
      order += "c";
      fiber::park();
      inner.resume();
      order += "e";
    }};
    EXPECT_FALSE(fiber::inside());
    outer.resume();
    EXPECT_FALSE(fiber::inside());
    outer.resume();
    EXPECT_EQ(order, "abcde");
  });
}

TEST(FiberOnThreads, ContinuesOnAnotherThreadWithItsExceptionAndContext) {
  context body_context;
  fiber a{[&] {
            EXPECT_TRUE(fiber::inside());
            try {
              throw std::runtime_error("a");
            } catch (...) {
              fiber::park();
              EXPECT_EQ(&current_context(), &body_context);
              throw;
            }
          },
          &body_context};
  std::thread{[&] { a.resume(); }}.join();
  std::thread{[&] { a.resume(); }}.join();
  EXPECT_THROW(std::rethrow_exception(a.error()), std::runtime_error);
}

} // namespace
} // namespace troupe
