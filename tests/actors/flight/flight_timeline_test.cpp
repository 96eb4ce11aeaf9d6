#include "troupe/actors/flight/flight_timeline.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace {

using namespace troupe;
using enum flight_event_kind;

constexpr std::int64_t millisecond = 1'000'000;

flight_record record_of(std::uint32_t task, std::int64_t wall_ns,
                        std::vector<flight_event> events) {
  flight_record out;
  out.identity = {
    "job", {"worker 0", "worker 1", "worker 2"}, task, 100 + task, wall_ns};
  out.events = std::move(events);
  out.recorded = out.events.size();
  return out;
}

flight_event commit_at(std::int64_t time_ns, std::uint64_t step) {
  return {.kind = step_committed, .time_ns = time_ns, .run = 1, .step = step};
}

void expect_parts_in_order(const std::string& text,
                           const std::vector<std::string>& parts) {
  std::size_t from = 0;
  for (const auto& part : parts) {
    const auto found = text.find(part, from);
    ASSERT_NE(found, std::string::npos) << part << "\nis not in\n" << text;
    from = found + part.size();
  }
}

TEST(FlightTimeline, AlignsProcessesByTheirWallClocks) {
  // The clock of worker 1 began 5 ms after that of worker 0.
  const std::vector<flight_record> records{
    record_of(0, 0,
              {{.kind = connected, .time_ns = 1 * millisecond, .process = 1},
               {.kind = disconnected,
                .time_ns = 9 * millisecond,
                .process = 2,
                .text = "closed"}}),
    record_of(1, 5 * millisecond,
              {{.kind = connected, .time_ns = 1 * millisecond, .process = 0}})};
  expect_parts_in_order(timeline_text(records),
                        {"0.000000 s  worker 0  connected, worker 1",
                         "0.005000 s  worker 1  connected, worker 0",
                         "0.008000 s  worker 0  disconnected, worker 2: closed",
                         "summary"});
}

TEST(FlightTimeline, ShowsConsecutiveCommitsInOneLine) {
  std::vector<flight_event> events{{.kind = run_begun, .time_ns = 0, .run = 1}};
  for (std::uint64_t step = 0; step < 5; ++step) {
    events.push_back(
      {.kind = steps_granted, .time_ns = std::int64_t(step), .step = step});
    events.push_back(commit_at(std::int64_t(step) * millisecond, step));
  }
  const std::vector records{record_of(0, 0, events)};
  const auto brief = timeline_text(records);
  EXPECT_NE(brief.find("steps 0 to 4 committed, run 1"), brief.npos) << brief;
  EXPECT_EQ(brief.find("steps granted"), brief.npos);
  const auto all = timeline_text(records, {.all_events = true});
  EXPECT_NE(all.find("step committed, run 1, step 3"), all.npos) << all;
  EXPECT_NE(all.find("steps granted"), all.npos) << all;
}

TEST(FlightTimeline, CallsStepsThatTheUserDoesNotCountOperations) {
  const std::vector records{record_of(
    0, 0,
    {{.kind = run_begun, .time_ns = 0, .run = 1, .text = "evaluate"},
     commit_at(1 * millisecond, 0),
     commit_at(2 * millisecond, 1),
     {.kind = run_begun, .time_ns = 3 * millisecond, .view = 2, .run = 1},
     {.kind = step_committed,
      .time_ns = 4 * millisecond,
      .view = 2,
      .run = 1,
      .step = 9}})};
  expect_parts_in_order(
    timeline_text(records),
    {"run begun, run 1: evaluate", "operations 0 to 1 committed, run 1",
     "step committed, run 1, step 9", "last commit: step 9 of run 1"});
}

TEST(FlightTimeline, NamesWhoWasMissingInWhichOperationSinceWhen) {
  auto failed = record_of(
    0, 0,
    {commit_at(100 * millisecond, 6),
     {.kind = role_missing,
      .time_ns = 600 * millisecond,
      .run = 1,
      .step = 7,
      .process = 1,
      .replica = 3,
      .text = "the sum of bucket 2"},
     {.kind = run_failed, .time_ns = 600 * millisecond, .run = 1, .step = 7}});
  failed.error = "step 7 stalled";
  failed.written_ns = 700 * millisecond;
  failed.recorded = 50;
  const std::vector records{failed};
  expect_parts_in_order(
    timeline_text(records),
    {"summary\n", "worker 0: step 7 stalled\n",
     "47 older events are not in the record\n",
     "last commit: step 6 of run 1, 0.600000 s before the record was written\n",
     "missing: replica 3 of worker 1, in the sum of bucket 2, step 7; no "
     "progress for 0.500000 s, since 0.000000 s\n",
     "worker 1: no record was given\n", "worker 2: no record was given\n"});
}

TEST(FlightTimeline, TellsTwoLivesOfATaskApart) {
  auto second = record_of(1, 0, {commit_at(2, 1)});
  second.identity.incarnation = 0xabc;
  const std::vector records{record_of(1, 0, {commit_at(1, 0)}), second};
  const auto text = timeline_text(records);
  EXPECT_NE(text.find("worker 1 (0000000000000065)"), text.npos) << text;
  EXPECT_NE(text.find("worker 1 (0000000000000abc)"), text.npos) << text;
}

/// A record may come from anyone.
TEST(FlightTimeline, ShowsImpossibleValuesAsTheyAre) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  std::vector<flight_event> events{
    {.kind = static_cast<flight_event_kind>(99), .time_ns = most},
    {.kind = disconnected,
     .time_ns = least,
     .process = 77,
     .duration_ns = ~std::uint64_t{0},
     .text = "\x1b[31mred\xff"}};
  const std::vector records{record_of(0, most, events),
                            record_of(1, least, events)};
  const auto text = timeline_text(records);
  EXPECT_NE(text.find("event 99"), text.npos) << text;
  EXPECT_NE(text.find("process 77"), text.npos) << text;
  EXPECT_EQ(text.find('\x1b'), text.npos);
}

TEST(FlightTimeline, OfNoEventsHasASummary) {
  const std::vector records{record_of(2, 0, {})};
  expect_parts_in_order(timeline_text(records),
                        {"job job\n", "summary\n", "worker 2: no error\n",
                         "worker 0: no record was given\n"});
}

} // namespace
