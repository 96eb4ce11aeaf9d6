#pragma once

#include "troupe/training/loop/history.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace troupe {

/// How `fit` shows how far it is.
enum class progress_style : std::uint8_t {
  none,
  lines,     ///< One line an epoch, and one every 10 s within it.
  bar,       ///< A bar that is redrawn, at most 10 times a second.
  automatic, ///< A bar where standard error is a terminal, else lines.
};

/// Where a pass stands.
struct progress_state {
  std::uint64_t epoch = 1, epochs = 1;
  std::uint64_t step = 0, steps = 0; ///< Of this pass; `steps` 0: unknown.
  std::uint64_t examples = 0;
  double loss = 0;                  ///< Mean so far.
  double accuracy = 0;              ///< In [0, 1], so far.
  double seconds = 0;               ///< Since the first step shown.
  std::uint64_t examples_timed = 0; ///< Done in these seconds.
};

/// "epoch 2/5 [####......]  40%  8,120/s  loss 0.2150  acc 93.40%  0:03 left",
/// cut to `width` columns; the bar is as long as they allow.
std::string bar_line(const progress_state& x, std::size_t width);

/// The same without the bar, for a log.
std::string plain_line(const progress_state& x);

/// What is said at the end of an epoch.
std::string epoch_line(const epoch_record& x, std::uint64_t epochs);

/// "1,234,567"
std::string with_commas(std::uint64_t x);

/// "0:07", "12:30", "1:02:03"
std::string as_duration(double seconds);

/// Decides when which line is shown.
class progress {
public:
  struct sink {
    std::function<void(std::string_view)> write;
    std::function<double()> now; ///< Seconds, never going back.
    std::size_t width = 80;      ///< Columns.
  };

  /// To standard error.
  explicit progress(progress_style style);
  progress(progress_style style, sink to);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  /// A pass begins, or goes on at `at.step` after an interruption.
  void begin(const progress_state& at);

  /// A step ended. @cost a clock reading, unless it is time for a line.
  void step(std::uint64_t examples, double loss_sum, double correct);

  void end(const epoch_record& x);

  /// Leaves the line of an unfinished bar.
  void leave();

private:
  void draw(double now);

  progress_style style_;
  sink to_;
  progress_state at_;
  double loss_sum_ = 0, correct_ = 0;
  double began_ = 0, next_ = 0;
  std::size_t drawn_ = 0; ///< Columns of the bar that stands on the terminal.
};

} // namespace troupe
