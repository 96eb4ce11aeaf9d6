#include "troupe/actors/flight/flight_recorder.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <utility>

namespace {

using namespace troupe;

flight_event commit_of(std::uint64_t step) {
  return {.kind = flight_event_kind::step_committed, .run = 1, .step = step};
}

std::vector<std::uint64_t> steps_of(const std::vector<flight_event>& events) {
  std::vector<std::uint64_t> out;
  for (const auto& x : events)
    out.push_back(x.step);
  return out;
}

TEST(FlightRecorder, KeepsTheLastEventsInOrder) {
  flight_recorder recorder{4};
  EXPECT_TRUE(recorder.events().empty());
  for (std::uint64_t step = 0; step < 4; ++step)
    recorder.record(commit_of(step));
  EXPECT_EQ(steps_of(recorder.events()),
            (std::vector<std::uint64_t>{0, 1, 2, 3}));
  for (std::uint64_t step = 4; step < 11; ++step)
    recorder.record(commit_of(step));
  EXPECT_EQ(steps_of(recorder.events()),
            (std::vector<std::uint64_t>{7, 8, 9, 10}));
  EXPECT_EQ(recorder.recorded(), 11u);
}

TEST(FlightRecorder, ReturnsEachFieldAsItWasRecorded) {
  flight_recorder recorder{
    2, [now = std::int64_t{40}]() mutable { return now += 2; }};
  const flight_event x{.kind = flight_event_kind::suspicion,
                       .view = 2,
                       .generation = ~std::uint64_t{0},
                       .run = 4,
                       .step = 5,
                       .process = 6,
                       .replica = flight_event::none,
                       .duration_ns = 8,
                       .bytes = std::uint64_t{1} << 40,
                       .text = "because"};
  recorder.record(x);
  auto expected = x;
  expected.time_ns = 2;
  EXPECT_EQ(recorder.events(), std::vector{expected});
}

TEST(FlightRecorder, TakesTheTimeFromItsSource) {
  std::int64_t now = 1000;
  flight_recorder recorder{8, [&now] { return now; }};
  now = 1500;
  recorder.record(commit_of(0));
  now = 4000;
  recorder.record(commit_of(1));
  const auto events = recorder.events();
  EXPECT_EQ(events.at(0).time_ns, 500);
  EXPECT_EQ(events.at(1).time_ns, 3000);
  EXPECT_EQ(recorder.now_ns(), 3000);
}

TEST(FlightRecorder, AddsTheLastViewToEventsWithoutOne) {
  flight_recorder recorder{8};
  recorder.record(commit_of(0));
  recorder.record({.kind = flight_event_kind::view_agreed, .view = 3});
  recorder.record(commit_of(1));
  const auto events = recorder.events();
  EXPECT_EQ(events.at(0).view, 0u);
  EXPECT_EQ(events.at(2).view, 3u);
}

TEST(FlightRecorder, KeepsALongTextWholeBesideOtherEvents) {
  flight_recorder recorder{128};
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += std::to_string(i) + " ";
  text.resize(4096);
  recorder.record(commit_of(0));
  auto event = commit_of(1);
  event.text = text;
  recorder.record(event);
  recorder.record(commit_of(2));
  const auto events = recorder.events();
  EXPECT_EQ(steps_of(events), (std::vector<std::uint64_t>{0, 1, 2}));
  EXPECT_EQ(events.at(1).text, text);
}

TEST(FlightRecorder, CutsALongerTextBetweenTwoCharacters) {
  constexpr std::size_t limit = 4096;
  flight_recorder recorder{200};
  auto event = commit_of(0);
  event.text = std::string(limit, 'a') + "b";
  recorder.record(event);
  event.text = std::string(limit - 4, 'a') + "\u00e4\u00e4\u00e4";
  recorder.record(event);
  event.text = std::string(limit, 'a');
  recorder.record(event);
  const auto events = recorder.events();
  EXPECT_EQ(events.at(0).text, std::string(limit - 3, 'a') + "...");
  EXPECT_EQ(events.at(1).text, std::string(limit - 4, 'a') + "...");
  EXPECT_EQ(events.at(2).text, std::string(limit, 'a'));
}

TEST(FlightRecorder, DropsTheRestOfATextWhoseBeginningIsOverwritten) {
  flight_recorder recorder{4};
  auto event = commit_of(0);
  event.text = std::string(3 * 96, 'a');
  recorder.record(event);
  recorder.record(commit_of(1));
  recorder.record(commit_of(2)); // in the first slot of the long text
  EXPECT_EQ(steps_of(recorder.events()), (std::vector<std::uint64_t>{1, 2}));
  event.text = std::string(100 * 96, 'b'); // more than there are slots
  recorder.record(event);
  EXPECT_EQ(recorder.events().at(0).text, std::string(4 * 96 - 3, 'b') + "...");
}

/// The clock of the recorder is read while an event is written. Here it records
/// as many further events as there are slots.
TEST(FlightRecorder, DropsAnEventWhoseSlotIsBeingWritten) {
  flight_recorder* target = nullptr;
  std::vector<std::uint64_t> seen;
  flight_recorder recorder{2, [&]() -> std::int64_t {
                             if (auto* const to = std::exchange(target, {})) {
                               to->record(commit_of(1));
                               to->record(commit_of(2));
                               seen = steps_of(to->events());
                             }
                             return 0;
                           }};
  target = &recorder;
  recorder.record(commit_of(0));
  EXPECT_EQ(seen, std::vector<std::uint64_t>{1});
  EXPECT_EQ(recorder.recorded(), 3u);
  recorder.record(commit_of(3));
  recorder.record(commit_of(4));
  EXPECT_EQ(steps_of(recorder.events()), (std::vector<std::uint64_t>{3, 4}));
}

/// Writers and a reader at once, in a ring of two events. So slots are written
/// while they are read, and by several writers. An event that the reader gets
/// is one that was recorded.
TEST(FlightRecorder, ReturnsOnlyWholeEventsWhileOthersWrite) {
  constexpr std::uint64_t each = 500'000;
  constexpr std::uint32_t writers = 2;
  flight_recorder recorder{2};
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < writers; ++w)
    threads.emplace_back([&recorder, w] {
      for (std::uint64_t i = 0; i < each; ++i)
        recorder.record(
          {.kind = flight_event_kind::role_missing,
           .view = 1 + i,
           .generation = i,
           .run = i,
           .step = i,
           .process = w,
           .replica = static_cast<std::uint32_t>(i),
           .duration_ns = i,
           .bytes = i,
           .text = std::string(90, static_cast<char>('a' + i % 26))});
    });
  std::size_t seen = 0;
  std::thread reader{[&] {
    do {
      for (const auto& x : recorder.events()) {
        const auto i = x.step;
        ++seen;
        ASSERT_LT(x.process, writers);
        ASSERT_EQ(x.view, 1 + i);
        ASSERT_EQ(x.generation, i);
        ASSERT_EQ(x.run, i);
        ASSERT_EQ(x.replica, i);
        ASSERT_EQ(x.duration_ns, i);
        ASSERT_EQ(x.bytes, i);
        ASSERT_EQ(x.text, std::string(90, static_cast<char>('a' + i % 26)));
      }
    } while (!done);
  }};
  for (auto& x : threads)
    x.join();
  done = true;
  reader.join();
  EXPECT_GT(seen, 0u);
  EXPECT_EQ(recorder.recorded(), writers * each);
  const auto last = recorder.events();
  EXPECT_LE(last.size(), 2u);
  std::set<std::pair<std::uint32_t, std::uint64_t>> distinct;
  for (const auto& x : last)
    distinct.emplace(x.process, x.step);
  EXPECT_EQ(distinct.size(), last.size()) << "no event is there twice";
}

TEST(FlightRecorder, KeepsItsWallClockWhenItGetsAnIdentity) {
  flight_recorder recorder{4};
  const auto wall = recorder.identity().wall_ns;
  EXPECT_GT(wall, 0);
  recorder.set_identity({"a job", {"worker 0", "worker 1"}, 1, 7, 0});
  EXPECT_EQ(recorder.identity(),
            (flight_identity{"a job", {"worker 0", "worker 1"}, 1, 7, wall}));
  EXPECT_EQ(recorder.task_of("worker 1"), 1u);
  EXPECT_EQ(recorder.task_of("worker 2"), flight_event::none);
}

} // namespace
