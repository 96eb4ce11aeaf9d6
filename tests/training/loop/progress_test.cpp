#include "troupe/training/loop/progress.hpp"

#include <gtest/gtest.h>

#include <array>

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
  EXPECT_EQ(plain_line(half_way()), "epoch 2/5   50%  800 examples/s  loss "
                                    "0.2150  accuracy 93.40%  0:04 left");
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
            "epoch 2/5   50%  800 examples/s  loss 0.2150  mean_absolute_error "
            "1.5000  accuracy 50.00%  0:04 left");
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
    terminal.text.find("epoch 1/1  0:25  256 examples/s  loss 0.1000  "
                       "accuracy 50.00%  validation loss 0.2000  accuracy "
                       "25.00%\n"),
    terminal.text.npos)
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
