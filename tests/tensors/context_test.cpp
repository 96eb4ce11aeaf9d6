#include "troupe/tensors/context.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace {

using troupe::context;
using troupe::context_scope;
using troupe::current_context;
using troupe::exchange_context;

TEST(Context, IsTheThreadsOwnUnlessOneIsInstalled) {
  auto* default_context = &current_context();
  EXPECT_EQ(default_context, &current_context());
  context other;
  EXPECT_EQ(exchange_context(&other), nullptr);
  EXPECT_EQ(&current_context(), &other);
  EXPECT_EQ(exchange_context(nullptr), &other);
  EXPECT_EQ(&current_context(), default_context);
}

TEST(Context, DiffersBetweenThreads) {
  current_context().copy_index = 5;
  std::jthread{[] {
    EXPECT_EQ(current_context().copy_index, 0u);
    current_context().copy_index = 7;
  }}.join();
  EXPECT_EQ(current_context().copy_index, 5u);
  current_context().copy_index = 0;
}

TEST(Context, IsRestoredAtTheEndOfAScopeAlsoByAnException) {
  context outer, inner;
  const context_scope out{outer};
  try {
    const context_scope in{inner};
    EXPECT_EQ(&current_context(), &inner);
    throw std::runtime_error("over");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(&current_context(), &outer);
  }
}

TEST(Context, FollowsFibersThatExchangeIt) {
  context a, b; // Contexts of two fibers on one thread.
  auto* outside = exchange_context(&a);
  current_context().random.op = 1;
  exchange_context(&b);
  current_context().random.op = 2;
  exchange_context(&a);
  EXPECT_EQ(current_context().random.op, 1u);
  exchange_context(outside);
  EXPECT_EQ(b.random.op, 2u);
}

TEST(Context, StartsWithoutTapeOrReplica) {
  const context fresh;
  EXPECT_EQ(fresh.recording, nullptr);
  EXPECT_EQ(fresh.copy_index, 0u);
}

} // namespace
