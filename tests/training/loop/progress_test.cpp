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
  progress_state x;
  x.epoch = 2;
  x.epochs = 5;
  x.step = 50;
  x.steps = 100;
  x.examples = 3200;
  x.loss = 0.215;
  x.accuracy = 0.934;
  x.seconds = 2;
  x.examples_timed = 1600; // Resumed at step 25.
  return x;
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

struct screen {
  double now = 0;
  std::string text;
  int writes = 0;

  progress::sink sink() {
    return {[this](std::string_view x) { text += x, ++writes; },
            [this] { return now; }, 100};
  }
};

TEST(Progress, BarIsRedrawnAtMostTenTimesPerSecond) {
  screen on;
  progress shown{progress_style::bar, on.sink()};
  progress_state at;
  at.steps = 1000;
  shown.begin(at);
  for (int i = 0; i < 1000; ++i) {
    on.now += 0.001;
    shown.step(64, 6.4, 32);
  }
  EXPECT_LE(on.writes, 11);
  EXPECT_GE(on.writes, 9);
  EXPECT_NE(on.text.find("loss 0.1000  acc 50.00%"), on.text.npos);
}

TEST(Progress, LongerLineIsOverwrittenWithBlanks) {
  screen on;
  progress shown{progress_style::bar, on.sink()};
  progress_state at;
  at.steps = 10;
  shown.begin(at);
  on.now = 1;
  shown.step(1'000'000, 0, 0);
  const auto first = on.text.size();
  on.now = 1000;
  shown.step(0, 0, 0);
  EXPECT_GE(on.text.size() - first, first);
}

TEST(Progress, PlainLinesAppearEveryTenSecondsAndPerEpoch) {
  screen on;
  progress shown{progress_style::lines, on.sink()};
  progress_state at;
  at.steps = 100;
  shown.begin(at);
  for (int i = 0; i < 100; ++i) {
    on.now += 0.25;
    shown.step(64, 6.4, 32);
  }
  epoch_record x;
  x.epoch = 1;
  x.examples = 6400;
  x.seconds = 25;
  x.loss = 0.1;
  x.accuracy = 0.5;
  x.validation_loss = 0.2;
  x.validation_accuracy = 0.25;
  shown.end(x);
  EXPECT_EQ(on.writes, 3);
  EXPECT_EQ(on.text.find('\r'), on.text.npos);
  EXPECT_NE(on.text.find("epoch 1/1  0:25  256 examples/s  loss 0.1000  "
                         "accuracy 50.00%  validation loss 0.2000  accuracy "
                         "25.00%\n"),
            on.text.npos)
    << on.text;
}

TEST(Progress, StyleNonePrintsNothing) {
  screen on;
  {
    progress shown{progress_style::none, on.sink()};
    shown.begin({});
    shown.step(1, 1, 1);
    shown.end({});
  }
  EXPECT_EQ(on.text, "");
}

} // namespace
