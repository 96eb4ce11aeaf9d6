#include "troupe/actors/core/fiber.hpp"
#include "troupe/actors/group/replica_group.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tests/support/denormals.hpp"
#include "troupe/tests/support/hosts.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <csignal>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace troupe {
namespace {

class Fiber : public test::OnEachHost {};

INSTANTIATE_TEST_SUITE_P(On, Fiber, test::all_hosts, test::name_of_host);

/// Parks inside a catch block, and then rethrows the caught exception.
void wait_in_catch(const std::string& text) {
  try {
    throw std::runtime_error(text);
  } catch (...) {
    fiber::park();
    throw;
  }
}

std::string text_of(const std::exception_ptr& x) {
  if (!x)
    return "";
  try {
    std::rethrow_exception(x);
  } catch (const std::exception& e) {
    return e.what();
  }
}

TEST_P(Fiber, TwoFibersThatWaitInCatchRethrowTheirOwnExceptions) {
  run_on_host([] {
    fiber a{[] { wait_in_catch("a"); }}, b{[] { wait_in_catch("b"); }};
    a.resume();
    b.resume();
    EXPECT_EQ(std::current_exception(), nullptr);
    a.resume();
    b.resume();
    EXPECT_EQ(text_of(a.error()), "a");
    EXPECT_EQ(text_of(b.error()), "b");
  });
}

TEST_P(Fiber, FlushesDenormalsWhileTheResumerKeepsItsMode) {
  if (!test::denormals_can_be_flushed)
    GTEST_SKIP() << "this processor has no mode that flushes denormals";
  run_on_host([] {
    std::vector<bool> flushed;
    const auto body = [&] {
      flushed.push_back(test::flushes_denormals());
      fiber::park();
      flushed.push_back(test::flushes_denormals());
    };
    fiber a{body}, b{body};
    a.resume();
    EXPECT_FALSE(test::flushes_denormals());
    b.resume();
    {
      const flush_denormals flushing;
      a.resume();
      EXPECT_TRUE(test::flushes_denormals());
    }
    b.resume();
    EXPECT_FALSE(test::flushes_denormals());
    a.start(body);
    a.resume();
    a.abort();
    EXPECT_FALSE(test::flushes_denormals());
    EXPECT_EQ(flushed, std::vector<bool>(5, true));
  });
}

TEST_P(Fiber, KeepsTheExceptionOfTheResumer) {
  run_on_host([] {
    fiber a{[] { wait_in_catch("a"); }};
    std::string caught;
    try {
      try {
        throw std::runtime_error("mine");
      } catch (...) {
        a.resume();
        throw;
      }
    } catch (const std::exception& e) {
      caught = e.what();
      a.resume();
    }
    EXPECT_EQ(caught, "mine");
    EXPECT_EQ(text_of(a.error()), "a");
  });
}

/// Increments `ends` when it is destroyed.
struct counted {
  explicit counted(int& x) : ends{x} {}
  int& ends;
  ~counted() { ++ends; }
};

TEST_P(Fiber, AbortRunsDestructors) {
  run_on_host([] {
    int ends = 0;
    bool went_on = false;
    fiber a{[&] {
      counted outer{ends};
      std::vector<std::string> held(100, std::string(100, 'x'));
      [&] {
        counted inner{ends};
        fiber::park();
        went_on = true;
      }();
    }};
    a.resume();
    EXPECT_EQ(ends, 0);
    a.abort();
    EXPECT_TRUE(a.done());
    EXPECT_EQ(ends, 2);
    EXPECT_FALSE(went_on);
    EXPECT_EQ(a.error(), nullptr); // `superseded` is not an error
  });
}

TEST_P(Fiber, EachWaitAfterAnAbortThrowsAgain) {
  run_on_host([] {
    int swallowed = 0;
    fiber a{[&] {
      for (int i = 0; i < 3; ++i)
        try {
          fiber::park();
        } catch (...) {
          ++swallowed;
        }
      fiber::park();
      ADD_FAILURE() << "a wait succeeded after the abort";
    }};
    a.resume();
    a.abort();
    EXPECT_TRUE(a.done());
    EXPECT_EQ(swallowed, 3);
  });
}

TEST_P(Fiber, AbortBeforeTheFirstResumeRunsNothing) {
  run_on_host([] {
    int ends = 0;
    auto held = std::make_shared<counted>(ends);
    fiber a{[held = std::move(held)] { ADD_FAILURE(); }};
    a.abort();
    EXPECT_TRUE(a.done());
    EXPECT_EQ(ends, 1);
  });
}

TEST_P(Fiber, TheDestructorAbortsAParkedBody) {
  run_on_host([] {
    int ends = 0;
    {
      fiber a{[&] {
        counted held{ends};
        fiber::park();
      }};
      a.resume();
    }
    EXPECT_EQ(ends, 1);
  });
}

TEST_P(Fiber, KeepsAnEscapedException) {
  run_on_host([] {
    fiber a{[] { throw std::out_of_range("text"); }};
    a.resume();
    EXPECT_TRUE(a.done());
    EXPECT_THROW(std::rethrow_exception(a.error()), std::out_of_range);
    a.start([] {});
    EXPECT_EQ(a.error(), nullptr);
  });
}

TEST_P(Fiber, KeepsAnExceptionThatReplacesAnAbort) {
  run_on_host([] {
    fiber a{[] {
      try {
        fiber::park();
      } catch (const superseded&) {
        throw std::runtime_error("instead");
      }
    }};
    a.resume();
    a.abort();
    EXPECT_EQ(text_of(a.error()), "instead");
  });
}

TEST_P(Fiber, RejectsCallsInTheWrongState) {
  run_on_host([] {
    fiber a;
    EXPECT_TRUE(a.done());
    EXPECT_THROW(a.resume(), std::logic_error); // no body was started
    a.start([&] {
      EXPECT_THROW(a.resume(), std::logic_error);
      EXPECT_THROW(a.abort(), std::logic_error);
      EXPECT_THROW(a.start([] {}), std::logic_error);
    });
    EXPECT_THROW(a.start([] {}), std::logic_error);
    a.resume();
    EXPECT_THROW(a.resume(), std::logic_error); // the body has ended
    EXPECT_THROW(fiber::park(), std::logic_error);
    EXPECT_THROW(a.start({}), std::logic_error);
  });
}

TEST_P(Fiber, Parks100000TimesInOneBody) {
  run_on_host([] {
    int parked = 0;
    fiber a{[&] {
      for (; parked < 100'000; ++parked)
        fiber::park();
    }};
    int resumed = 0;
    for (; !a.done(); ++resumed)
      a.resume();
    EXPECT_EQ(parked, 100'000);
    EXPECT_EQ(resumed, 100'001);
  });
}

TEST_P(Fiber, RunsEachBodyOnTheSameStack) {
  run_on_host([] {
    fiber a;
    const void* first = nullptr;
    for (int i = 0; i < 1000; ++i) {
      const void* frame = nullptr;
      a.start([&] {
        frame = __builtin_frame_address(0);
        fiber::park();
      });
      a.resume();
      if (i % 2)
        a.resume();
      else
        a.abort();
      if (i == 0)
        first = frame;
      ASSERT_EQ(frame, first) << "body " << i;
    }
  });
}

/// Calls itself until the stack overflows.
__attribute__((noinline)) int recurse(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return depth == 1'000'000 ? 0 : recurse(depth + 1) + frame[0];
}

/// Writes to an array that is larger than the stack.
__attribute__((noinline)) void use_large_array() {
  volatile char all[std::size_t{2} << 20];
  for (std::size_t i = 0; i < sizeof all; i += 512)
    all[i] = 1;
}

void run_on_fiber(void (*fn)()) {
  fiber a{fn};
  a.resume();
}

TEST(FiberDeathTest, AnOverflowOfTheStackIsReported) {
  if (test::slowness > 1)
    GTEST_SKIP() << "sanitizers report overflows themselves";
  constexpr auto text =
    "^troupe: a step or a simulated process overflowed its stack of 1048576 "
    "bytes; put large arrays on the heap, in a std::vector or a tensor\n$";
  const ::testing::KilledBySignal killed{SIGSEGV};
  EXPECT_EXIT(run_on_fiber([] { recurse(0); }), killed, text);
  EXPECT_EXIT(run_on_fiber(use_large_array), killed, text);
}

TEST(FiberDeathTest, OtherSegmentationFaultsAndHandlersAreUnchanged) {
  if (test::slowness > 1)
    GTEST_SKIP() << "sanitizers handle this signal";
  const ::testing::KilledBySignal killed{SIGSEGV};
  EXPECT_EXIT(run_on_fiber([] { ::raise(SIGSEGV); }), killed, "^$");
  EXPECT_EXIT(run_on_fiber([] {
                // A write to a page without access.
                static_cast<volatile char*>(::mmap(nullptr, 4096, PROT_NONE,
                                                   MAP_PRIVATE | MAP_ANONYMOUS,
                                                   -1, 0))[0] = 1;
              }),
              killed, "^$");
  // The handler of a program that was installed later.
  EXPECT_EXIT(run_on_fiber([] {
                ::signal(SIGSEGV, [](int) { ::_exit(7); });
                ::raise(SIGSEGV);
              }),
              ::testing::ExitedWithCode(7), "^$");
}

TEST(FiberStack, HasTheGivenSize) {
  fiber a{use_large_array, nullptr, std::size_t{4} << 20};
  a.resume();
  EXPECT_TRUE(a.done());
  EXPECT_EQ(a.error(), nullptr);
}

} // namespace
} // namespace troupe
