#include "troupe/training/loop/progress.hpp"

#include <gtest/gtest.h>

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
  state.accuracy = 0.934;
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
  EXPECT_EQ(plain_line(x), "epoch 1/1    0%  loss 0.0000  accuracy 0.00%");
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
  shown.begin(at);
  for (int i = 0; i < 1000; ++i) {
    terminal.now += 0.001;
    shown.step(64, 6.4, 32);
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
  shown.begin(at);
  terminal.now = 1;
  shown.step(1'000'000, 0, 0);
  const auto first = terminal.text.size();
  terminal.now = 1000;
  shown.step(0, 0, 0);
  EXPECT_GE(terminal.text.size() - first, first);
}

TEST(Progress, PlainLinesAppearEveryTenSecondsAndPerEpoch) {
  fake_terminal terminal;
  progress shown{progress_style::lines, terminal.sink()};
  progress_state at;
  at.steps = 100;
  shown.begin(at);
  for (int i = 0; i < 100; ++i) {
    terminal.now += 0.25;
    shown.step(64, 6.4, 32);
  }
  epoch_record record;
  record.epoch = 1;
  record.examples = 6400;
  record.seconds = 25;
  record.loss = 0.1;
  record.accuracy = 0.5;
  record.validation_loss = 0.2;
  record.validation_accuracy = 0.25;
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
    shown.step(1, 1, 1);
    shown.end({});
  }
  EXPECT_EQ(terminal.text, "");
}

} // namespace
