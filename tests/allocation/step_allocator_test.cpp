#include "troupe/tests/support/malloc_counter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <set>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace {

using troupe::testing::malloc_counter;

struct piece {
  unsigned char* bytes;
  std::size_t size;
  unsigned char mark;

  bool is_intact() const {
    return std::all_of(bytes, bytes + size,
                       [this](auto x) { return x == mark; });
  }
};

piece make(std::size_t size, unsigned char mark) {
  auto* at = static_cast<unsigned char*>(::operator new(size));
  std::memset(at, mark, size);
  return {at, size, mark};
}

TEST(StepAllocator, CallsNoMallocWhenStepsRepeat) {
  const auto step = [] {
    std::unordered_map<int, std::string> table;
    for (int i = 0; i < 20; ++i)
      table.emplace(i, std::string(30, 'x'));
    const std::unique_ptr<char[]> text{new char[1024]};
    const std::unique_ptr<int> one{new (std::nothrow) int};
    return table.size();
  };
  step();
  const malloc_counter counter;
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(step(), 20u);
  EXPECT_EQ(counter.calls(), 0u);
}

TEST(StepAllocator, BlocksOfAllSizesAreDisjoint) {
  std::vector<piece> pieces;
  for (std::size_t size = 0; size <= 1100; ++size)
    for (int i = 0; i < 3; ++i)
      pieces.push_back(make(size, static_cast<unsigned char>(pieces.size())));
  for (const auto& each : pieces) {
    EXPECT_TRUE(each.is_intact()) << each.size;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(each.bytes) % 16, 0u);
    ::operator delete(each.bytes);
  }
}

TEST(StepAllocator, ServesEveryFormOfNew) {
  struct alignas(64) wide {
    float x[16];
  };
  for (int i = 0; i < 100; ++i) {
    const std::unique_ptr<wide> one{new wide};
    const std::unique_ptr<wide[]> many{new wide[3]};
    const std::unique_ptr<char[]> text{new char[17]};
    const std::unique_ptr<int> quiet{new (std::nothrow) int{5}};
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.get()) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(many.get()) % 64, 0u);
    EXPECT_EQ(*quiet, 5);
  }
  ::operator delete(nullptr);
}

TEST(StepAllocator, ThrowsWhenMemoryIsExhausted) {
  volatile std::size_t too_much = std::numeric_limits<std::ptrdiff_t>::max();
  EXPECT_THROW(::operator delete(::operator new(too_much)), std::bad_alloc);
  EXPECT_EQ(::operator new(too_much, std::nothrow), nullptr);
}

TEST(StepAllocator, CallsTheNewHandlerUntilThereIsMemory) {
  static int calls;
  calls = 0;
  std::set_new_handler([] {
    if (++calls == 3)
      std::set_new_handler(nullptr);
  });
  volatile std::size_t too_much = std::numeric_limits<std::ptrdiff_t>::max();
  EXPECT_THROW(::operator delete(::operator new(too_much)), std::bad_alloc);
  EXPECT_EQ(calls, 3);
}

/// Passes blocks between threads.
class exchange {
public:
  piece swap(piece mine, std::size_t slot) {
    const std::lock_guard hold{lock_};
    std::swap(mine, pieces_[slot % pieces_.size()]);
    return mine;
  }
  ~exchange() {
    for (const auto& each : pieces_)
      ::operator delete(each.bytes);
  }

private:
  std::mutex lock_;
  std::vector<piece> pieces_ = std::vector<piece>(512);
};

TEST(StepAllocator, BlocksFreedByOtherThreadsStayIntact) {
  exchange between;
  std::atomic<int> broken{0};
  const auto work = [&](unsigned seed) {
    std::mt19937 rng{seed};
    for (int i = 0; i < 30'000; ++i) {
      const auto taken = between.swap(
        make(rng() % 1200, static_cast<unsigned char>(rng())), rng());
      broken += !taken.is_intact();
      ::operator delete(taken.bytes);
    }
  };
  for (unsigned round = 0; round < 3; ++round) { // New threads per round.
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 4; ++i)
      threads.emplace_back(work, 10 * round + i);
  }
  EXPECT_EQ(broken, 0);
}

TEST(StepAllocator, NoBlockIsInTwoThreads) {
  std::atomic<int> broken{0};
  const auto work = [&](unsigned char mark) {
    for (int i = 0; i < 3000; ++i) {
      piece pieces[200]; // A thread keeps at most 64 free blocks.
      for (auto& each : pieces)
        each = make(512, mark);
      for (const auto& each : pieces) {
        broken += !each.is_intact();
        ::operator delete(each.bytes);
      }
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned char mark = 1; mark <= 4; ++mark)
    threads.emplace_back(work, mark);
  threads.clear();
  EXPECT_EQ(broken, 0);
}

TEST(StepAllocator, ReusesBlocksOfEndedThreads) {
  std::set<void*> seen;
  for (int i = 0; i < 50; ++i)
    std::jthread{[&] {
      std::vector<void*> blocks(1000);
      for (auto& each : blocks)
        each = ::operator new(700);
      seen.insert(blocks.begin(), blocks.end());
      for (auto* each : blocks)
        ::operator delete(each);
    }}.join();
  EXPECT_LT(seen.size(), 1100u); // Of 50,000 allocations.
}

TEST(StepAllocator, ReusesBlocksFreedByAnotherThread) {
  std::set<void*> seen;
  for (int round = 0; round < 50; ++round) {
    std::vector<void*> blocks(1000);
    std::jthread{[&] {
      for (auto& each : blocks)
        each = ::operator new(800);
    }}.join();
    seen.insert(blocks.begin(), blocks.end());
    for (auto* each : blocks)
      ::operator delete(each);
  }
  EXPECT_LT(seen.size(), 1500u); // Of 50,000 allocations.
}

/// Frees and allocates a block when its thread ends. It is constructed before
/// the thread's first allocation, so its destructor runs after that of the
/// allocator's lists.
struct late {
  void* block = nullptr;
  ~late() {
    ::operator delete(block);
    ::operator delete(::operator new(900));
  }
};
thread_local late left_behind;

TEST(StepAllocator, ServesDestructorsAtThreadExit) {
  std::set<void*> seen;
  for (int i = 0; i < 300; ++i)
    std::jthread{[&] {
      auto& at_end = left_behind;
      at_end.block = ::operator new(900);
      seen.insert(at_end.block);
    }}.join();
  EXPECT_LT(seen.size(), 50u);
}

TEST(StepAllocator, WorksInAChildForkedDuringAllocations) {
  std::atomic<bool> stop{false};
  std::jthread busy{[&] {
    while (!stop) {
      std::vector<void*> blocks(1000);
      for (auto& each : blocks)
        each = ::operator new(64);
      for (auto* each : blocks)
        ::operator delete(each);
    }
  }};
  for (int i = 0; i < 100; ++i) {
    const auto child = fork();
    if (child == 0) {
      alarm(20); // Ends a deadlock in the child.
      std::vector<void*> blocks(3000);
      for (auto& each : blocks)
        each = ::operator new(64);
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
}

} // namespace
