#pragma once

#include "troupe/training/loop/options/history.hpp"
#include "troupe/training/loop/options/metric_list.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// How `fit` displays its progress.
enum class progress_style : std::uint8_t {
  none,
  lines, ///< A line every 10 s and one at the end of an epoch.
  bar,   ///< A bar that is redrawn at most 10 times a second.
  /// A bar if standard error is a terminal, or if a launcher shows it on one
  /// (`progress_columns_variable`), else lines.
  automatic,
};

/// Environment variable with the columns of the terminal on which a launcher
/// shows the standard error of this process. The bar is then written as lines
/// that begin with a carriage return. The launcher shows each of them in place
/// of the one before.
inline constexpr const char* progress_columns_variable =
  "TROUPE_PROGRESS_COLUMNS";

/// Returns the columns of the terminal to which standard error is connected, 80
/// if it does not tell. None: it is no terminal.
std::optional<std::size_t> terminal_columns();

/// Progress within an epoch.
struct progress_state {
  std::uint64_t epoch = 1, epochs = 1;
  /// Steps done and all steps of the epoch; `steps` 0: unknown.
  std::uint64_t step = 0, steps = 0;
  std::uint64_t examples = 0;
  double loss = 0;                     ///< Mean over `examples`.
  std::vector<metric_value> metrics{}; ///< Over `examples`.
  double seconds = 0;                  ///< Time since `progress::begin`.
  std::uint64_t examples_timed = 0;    ///< Examples processed in `seconds`.
};

/// Returns "epoch 2/5 [####......] 40% 8,120/s loss 0.2150 acc 93.40% 0:03
/// left", truncated to `width` - 1 columns. The bar fills the columns that the
/// text leaves, at most 30. If fewer than 5 are left, there is no bar.
std::string bar_line(const progress_state& state, std::size_t width);

/// Returns the progress as a line without a bar, for a log. A line that would
/// have more than 79 columns is broken between two metrics.
std::string plain_line(const progress_state& state);

/// Returns the line printed at the end of an epoch: "epoch 2/5  0:25  256/s
/// loss 0.1000 val 0.2000  acc 50.00% val 25.00%". The value on the validation
/// data follows "val". A line that would have `width` columns or more is broken
/// between two metrics.
std::string epoch_line(const epoch_record& record, std::uint64_t epochs,
                       std::size_t width = 80);

/// Formats a number with thousands separators: "1,234,567".
std::string with_commas(std::uint64_t x);

/// Formats a duration: "0:07", "12:30" or "1:02:03".
std::string as_duration(double seconds);

/// Prints the progress of a fit and decides when to print each line.
class progress {
public:
  struct sink {
    std::function<void(std::string_view)> write;
    std::function<double()> now; ///< Monotonic time in seconds.
    std::size_t width = 80;      ///< Columns.
    /// True: a launcher reads lines (`progress_columns_variable`).
    bool is_relayed = false;
  };

  /// Prints to standard error.
  explicit progress(progress_style style);
  progress(progress_style style, sink to);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  /// Begins an epoch, or continues an interrupted epoch at `state.step`. The
  /// loss and the metrics are computed from sums.
  /// @param sums sums over the steps of the epoch so far, as
  ///        `step_metrics::sums`. Empty: no steps.
  void begin(const progress_state& state, const metric_list& metrics = {},
             std::span<const double> sums = {});

  /// Counts a step, and prints if a line is due.
  /// @param sums sums of the step.
  /// @cost one reading of the clock if no line is due.
  void step(std::uint64_t examples, std::span<const double> sums);

  void end(const epoch_record& record);

  /// Prints a line end if a bar is displayed.
  void finish_line();

private:
  void draw(double now);

  progress_style style_;
  sink sink_;
  progress_state state_;
  metric_list metrics_;
  std::vector<double> sums_;
  double begin_time_ = 0, next_draw_time_ = 0;
  /// Columns of the displayed bar line; 0: none.
  std::size_t drawn_columns_ = 0;
};

} // namespace troupe
