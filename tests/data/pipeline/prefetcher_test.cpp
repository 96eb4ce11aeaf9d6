#include "troupe/data/pipeline/batch_stage.hpp"
#include "troupe/data/pipeline/stage.hpp"
#include "troupe/tests/data/counted.hpp"
#include "troupe/tests/support/denormals.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

namespace troupe::data {
namespace {

using namespace testing;
using namespace std::chrono_literals;

TEST(Prefetch, ChangesNoElement) {
  for (const std::size_t count : {1u, 2u, 100u}) {
    const auto x = counted(20).shuffle(whole_dataset, 1).batch(3);
    EXPECT_EQ(all_names(x.prefetch(count)), all_names(x));
  }
}

TEST(Prefetch, ReadsOnAThreadOfItsOwn) {
  std::thread::id reader;
  const auto x = counted(1).map([&](const batch& x) {
    reader = std::this_thread::get_id();
    return x;
  });
  x.iterate().next();
  EXPECT_EQ(reader, std::this_thread::get_id());
  x.prefetch(1).iterate().next();
  EXPECT_NE(reader, std::this_thread::get_id());
}

TEST(Prefetch, MapFunctionsFlushDenormalsOnAnyThread) {
  if (!test::denormals_can_be_flushed)
    GTEST_SKIP() << "this processor has no mode that flushes denormals";
  std::atomic<int> flushed = 0;
  const auto flushing = [&](const batch& x) {
    flushed += test::flushes_denormals();
    return x;
  };
  const dataset generated{
    2, 3, [&](std::uint64_t) {
      return flushing({tensor::full({2}, 1), tensor::zeros({}, dtype::int32)});
    }};
  const auto mapped = generated.map(flushing).batch(1).map(flushing);
  for (const std::size_t count : {0u, 2u}) {
    flushed = 0;
    auto each = mapped.prefetch(count).iterate();
    while (each.next())
      EXPECT_FALSE(test::flushes_denormals());
    EXPECT_EQ(flushed, 6);
  }
  flushed = 0;
  mapped.element();
  EXPECT_EQ(flushed, 3);
  EXPECT_FALSE(test::flushes_denormals());
}

TEST(Prefetch, ReadsExactlyTheRequestedNumberAhead) {
  std::atomic<int> read = 0;
  std::promise<void> third;
  const auto x = counted(10).map([&](const batch& x) {
    if (++read == 3)
      third.set_value();
    return x;
  });
  {
    auto each = x.prefetch(2).iterate();
    each.next();
    // `next` has returned the first element. The prefetcher reads two elements
    // ahead: the second and the third.
    third.get_future().wait_for(10s);
  }
  EXPECT_EQ(read, 3);
}

TEST(Prefetch, AnErrorFollowsTheElementsBeforeIt) {
  std::atomic<bool> broken = true;
  auto each = counted(5)
                .map([&](const batch& x) {
                  if (broken && names(x)[0] == 2)
                    throw std::runtime_error("example 2 is unreadable");
                  return x;
                })
                .prefetch(4)
                .iterate();
  EXPECT_EQ(rest(each, 2), (lists{{0}, {1}}));
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(complaint([&] { each.next(); }), "example 2 is unreadable");
  EXPECT_EQ(each.save(), (position{0, 2}));
  broken = false;
  EXPECT_EQ(rest(each), (lists{{2}, {3}, {4}}));
}

TEST(Prefetch, ContinuesAfterATimeout) {
  std::promise<void> go_on;
  std::atomic<int> read = 0;
  auto each = counted(2)
                .map([&, wait = go_on.get_future().share()](const batch& x) {
                  ++read;
                  wait.wait_for(60s);
                  return x;
                })
                .prefetch(1, 1ms)
                .iterate();
  EXPECT_EQ(complaint([&] { each.next(); }),
            "no element was ready within 1 ms: a map function hangs, or "
            "prefetch needs a longer timeout");
  EXPECT_EQ(each.save(), (position{0, 0}));
  go_on.set_value();
  lists got;
  while (got.size() < 2)
    try {
      got.push_back(names(*each.next()));
    } catch (const std::runtime_error&) {
    }
  EXPECT_EQ(got, (lists{{0}, {1}}));
  EXPECT_EQ(read, 2);
}

TEST(Prefetch, CanBeDestroyedAtAnyTime) {
  const auto endless = counted(7).repeat().shuffle(5).batch(2).prefetch(3);
  for (std::size_t read = 0; read < 200; ++read) {
    auto each = endless.iterate();
    EXPECT_EQ(rest(each, read % 9).size(), read % 9);
    if (read % 2)
      each.restore({1, read});
    each.next();
  }
}

TEST(Prefetch, DetachesAThreadThatHangs) {
  struct gate {
    std::promise<void> begun, go_on;
    std::shared_future<void> wait = go_on.get_future().share();
    std::atomic<int> read = 0;
  };
  const auto shared_gate = std::make_shared<gate>();
  const auto x = counted(100).map([shared_gate](const batch& x) {
    if (++shared_gate->read == 1)
      shared_gate->begun.set_value();
    shared_gate->wait.wait_for(60s);
    return x;
  });
  {
    auto each = x.batch(100).prefetch(2, 1ms).iterate();
    EXPECT_THROW(each.next(), std::runtime_error);
    shared_gate->begun.get_future().wait_for(60s);
  } // The destructor returns, although `map`'s function does not.
  EXPECT_EQ(shared_gate->read, 1);
  shared_gate->go_on.set_value();
}

TEST(Prefetch, AStopEndsABatchBetweenTwoExamples) {
  std::stop_source stop;
  int read = 0;
  const auto rows = std::make_shared<data::tensor_stage>(
    batch{tensor::zeros({100, 1}), tensor::zeros({100}, dtype::int32)}, 1);
  const auto each = std::make_shared<map_stage>(rows, [&](const batch& x) {
    if (++read == 3)
      stop.request_stop();
    return x;
  });
  const batch_stage all{each, 100, false};
  EXPECT_THROW(all.read({}, stop.get_token()), read_cancelled);
  EXPECT_EQ(read, 3);
}

} // namespace
} // namespace troupe::data
