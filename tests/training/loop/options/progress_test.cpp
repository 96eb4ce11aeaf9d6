#include "troupe/training/loop/options/progress.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>
#include <string>

namespace {

using namespace troupe;

TEST(Progress, NumbersAndDurationsAreReadable) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(as_duration(6.6), "0:07");
  EXPECT_EQ(as_duration(750), "12:30");
  EXPECT_EQ(as_duration(3723), "1:02:03");
}

progress_state half_way() {
  progress_state state;
  state.epoch = 2;
  state.epochs = 5;
  state.step = 50;
  state.steps = 100;
  state.examples = 3200;
  state.loss = 0.215;
  state.metrics = {{"accuracy", 0.934}};
  state.seconds = 2;
  state.examples_timed = 1600; // Since step 25, where the epoch resumed.
  return state;
}

TEST(Progress, LineHasRateLossAccuracyAndTimeLeft) {
  EXPECT_EQ(plain_line(half_way()), "epoch 2/5   50%  800/s  loss 0.2150  acc "
                                    "93.40%  0:04 left");
}

TEST(Progress, BarFitsTheTerminalWidth) {
  EXPECT_EQ(
    bar_line(half_way(), 80),
    "epoch 2/5 [#########..........]  50%  800/s  loss 0.2150  acc 93.40%"
    "  0:04 left");
  for (std::size_t width = 1; width < 200; ++width)
    EXPECT_LT(bar_line(half_way(), width).size(), width);
}

TEST(Progress, TimeLeftIsOmittedBeforeTheFirstStep) {
  progress_state x;
  x.steps = 10;
  EXPECT_EQ(plain_line(x), "epoch 1/1    0%  loss 0.0000");
}

metric_list accuracy() {
  return metric_list{{models::accuracy_metric()}};
}

TEST(Progress, OtherMetricsHaveTheirNames) {
  auto state = half_way();
  state.metrics = {{"mean_absolute_error", 1.5}, {"accuracy", 0.5}};
  EXPECT_EQ(plain_line(state),
            "epoch 2/5   50%  800/s  loss 0.2150  mean_absolute_error 1.5000  "
            "acc 50.00%\n  0:04 left");
}

struct fake_terminal {
  double now = 0;
  std::string text;
  int writes = 0;

  progress::sink sink() {
    return {[this](std::string_view x) { text += x, ++writes; },
            [this] { return now; }, 100};
  }
};

TEST(Progress, BarIsRedrawnAtMostTenTimesPerSecond) {
  fake_terminal terminal;
  progress shown{progress_style::bar, terminal.sink()};
  progress_state at;
  at.steps = 1000;
  shown.begin(at, accuracy());
  for (int i = 0; i < 1000; ++i) {
    terminal.now += 0.001;
    shown.step(64, std::array{6.4, 0.0, 32.0, 64.0});
  }
  EXPECT_LE(terminal.writes, 11);
  EXPECT_GE(terminal.writes, 9);
  EXPECT_NE(terminal.text.find("loss 0.1000  acc 50.00%"), terminal.text.npos);
}

TEST(Progress, LongerLineIsOverwrittenWithBlanks) {
  fake_terminal terminal;
  progress shown{progress_style::bar, terminal.sink()};
  progress_state at;
  at.steps = 10;
  shown.begin(at, accuracy());
  terminal.now = 1;
  shown.step(1'000'000, std::array{0.0, 0.0, 0.0, 1e6});
  const auto first = terminal.text.size();
  terminal.now = 1000;
  shown.step(0, std::array{0.0, 0.0, 0.0, 0.0});
  EXPECT_GE(terminal.text.size() - first, first);
}

TEST(Progress, PlainLinesAppearEveryTenSecondsAndPerEpoch) {
  fake_terminal terminal;
  progress shown{progress_style::lines, terminal.sink()};
  progress_state at;
  at.steps = 100;
  shown.begin(at, accuracy());
  for (int i = 0; i < 100; ++i) {
    terminal.now += 0.25;
    shown.step(64, std::array{6.4, 0.0, 32.0, 64.0});
  }
  epoch_record record;
  record.epoch = 1;
  record.examples = 6400;
  record.seconds = 25;
  record.loss = 0.1;
  record.metrics = {{"accuracy", 0.5}};
  record.validation_loss = 0.2;
  record.validation_metrics = {{"accuracy", 0.25}};
  shown.end(record);
  EXPECT_EQ(terminal.writes, 3);
  EXPECT_EQ(terminal.text.find('\r'), terminal.text.npos);
  EXPECT_NE(
    terminal.text.find("epoch 1/1  0:25  256/s  loss 0.1000 val 0.2000  acc "
                       "50.00% val 25.00%\n"),
    terminal.text.npos)
    << terminal.text;
}

/// Returns the longest line of a text.
std::size_t columns_of(const std::string& text) {
  std::size_t out = 0;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);)
    out = std::max(out, line.size());
  return out;
}

TEST(Progress, LineOfAnEpochFitsTheTerminalAndNamesEachMetricOnce) {
  epoch_record record;
  record.epoch = 10;
  record.examples = 232'790'000;
  record.seconds = 10'000;
  record.loss = 0.0007;
  record.metrics = {{"accuracy", 1}};
  record.validation_loss = 0.0136;
  record.validation_metrics = {{"accuracy", 0.9912}};
  EXPECT_EQ(epoch_line(record, 30),
            "epoch 10/30  2:46:40  23,279/s  loss 0.0007 val 0.0136  acc "
            "100.00% val 99.12%");
  record.metrics = {{"mean_absolute_error", 0.0772}, {"hits", 0.5}};
  record.validation_metrics = {{"mean_absolute_error", 0.0934}, {"hits", 0.25}};
  EXPECT_EQ(epoch_line(record, 30),
            "epoch 10/30  2:46:40  23,279/s  loss 0.0007 val 0.0136\n"
            "  mean_absolute_error 0.0772 val 0.0934  hits 0.5000 val 0.2500");
  for (std::size_t width = 45; width < 200; ++width)
    EXPECT_LT(columns_of(epoch_line(record, 30, width)), width);
}

TEST(Progress, ValidationThatIsNotFiniteIsSaidSo) {
  epoch_record record;
  record.epoch = 1;
  record.loss = 0.5;
  record.metrics = {{"accuracy", 0.5}};
  record.validation_loss = std::numeric_limits<double>::infinity();
  EXPECT_EQ(epoch_line(record, 1),
            "epoch 1/1  0:00  loss 0.5000 val is not finite  acc 50.00%");
}

TEST(Progress, LauncherGetsEachBarAsALine) {
  fake_terminal terminal;
  auto sink = terminal.sink();
  sink.is_relayed = true;
  progress shown{progress_style::bar, sink};
  progress_state at;
  at.steps = 2;
  shown.begin(at, accuracy());
  for (int i = 0; i < 2; ++i) {
    terminal.now += 1;
    shown.step(64, std::array{6.4, 0.0, 32.0, 64.0});
  }
  epoch_record record;
  record.epoch = 1;
  record.loss = 0.1;
  shown.end(record);
  shown.finish_line();
  EXPECT_EQ(std::ranges::count(terminal.text, '\r'), 2) << terminal.text;
  EXPECT_TRUE(terminal.text.starts_with("\repoch 1/1 [")) << terminal.text;
  EXPECT_TRUE(terminal.text.ends_with("\nepoch 1/1  0:00  loss 0.1000\n"))
    << terminal.text;
}

TEST(Progress, StyleNonePrintsNothing) {
  fake_terminal terminal;
  {
    progress shown{progress_style::none, terminal.sink()};
    shown.begin({});
    shown.step(1, std::array{1.0, 0.0});
    shown.end({});
  }
  EXPECT_EQ(terminal.text, "");
}

} // namespace
