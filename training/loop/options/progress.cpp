#include "troupe/training/loop/options/progress.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <sys/ioctl.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace troupe {

namespace {

constexpr double redraw_interval = 0.1, line_interval = 10; // Seconds.

template <class... Ts>
std::string format(const char* how, Ts... xs) {
  char text[96];
  std::snprintf(text, sizeof text, how, xs...);
  return text;
}

/// Returns "loss 0.2150" or "acc 93.40%".
std::string value_text(const std::string& name, double value) {
  if (!std::isfinite(value))
    return name + " is not finite";
  if (name == "acc")
    return name + format(" %.2f%%", 100 * value);
  return name + format(std::abs(value) < 1e5 ? " %.4f" : " %.3e", value);
}

/// Returns the value of a metric without its name.
std::string bare_value_text(const std::string& name, double value) {
  return value_text(name, value).substr(name.size() + 1);
}

/// The accuracy has a short name.
std::string shown_name(const std::string& metric) {
  return metric == "accuracy" ? "acc" : metric;
}

/// Returns a text for the loss, and one for each metric.
std::vector<std::string> metric_texts(double loss,
                                      std::span<const metric_value> metrics) {
  std::vector<std::string> out{value_text("loss", loss)};
  for (const auto& one : metrics)
    out.push_back(value_text(shown_name(one.name), one.value));
  return out;
}

/// Joins texts with two spaces. A line that would have `width` columns or more
/// is broken between two of them, and the next one is indented.
std::string folded(const std::vector<std::string>& texts, std::size_t width) {
  std::string out;
  std::size_t columns = 0;
  for (const auto& one : texts) {
    const bool breaks = columns > 0 && columns + 2 + one.size() >= width;
    if (breaks)
      out += "\n";
    if (breaks || columns > 0)
      out += "  ";
    out += one;
    columns = (breaks ? 0 : columns) + (columns > 0 ? 2 : 0) + one.size();
  }
  return out;
}

std::string rounded_rate(std::uint64_t examples, double seconds) {
  return with_commas(static_cast<std::uint64_t>(
    std::llround(static_cast<double>(examples) / seconds)));
}

std::string epoch_text(const progress_state& x) {
  return "epoch " + std::to_string(x.epoch) + "/" + std::to_string(x.epochs);
}

double fraction_done(const progress_state& state) {
  return std::clamp(
    static_cast<double>(state.step)
      / static_cast<double>(std::max<std::uint64_t>(state.steps, 1)),
    0.0, 1.0);
}

std::string time_left(const progress_state& state) {
  if (state.step == 0 || state.steps <= state.step || state.seconds <= 0
      || state.examples_timed == 0 || state.examples == 0)
    return {};
  const auto per_step =
    static_cast<double>(state.examples) / static_cast<double>(state.step);
  const auto left = static_cast<double>(state.steps - state.step) * per_step;
  return as_duration(left * state.seconds
                     / static_cast<double>(state.examples_timed))
         + " left";
}

/// Returns the value of `progress_columns_variable`. None: it is not set.
std::optional<std::size_t> relayed_columns() {
  const auto* const text = std::getenv(progress_columns_variable);
  std::size_t columns = 0;
  if (!text
      || std::from_chars(text, text + std::strlen(text), columns).ec
           != std::errc{})
    return std::nullopt;
  return columns;
}

progress::sink standard_error() {
  progress::sink terminal;
  terminal.write = [](std::string_view text) {
    while (!text.empty()) {
      const auto n = ::write(STDERR_FILENO, text.data(), text.size());
      if (n <= 0)
        return; // A failure to print progress does not end the training.
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  };
  terminal.now = [] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  };
  if (const auto columns = terminal_columns()) {
    terminal.width = *columns;
  } else if (const auto relayed = relayed_columns()) {
    terminal.width = *relayed;
    terminal.is_relayed = true;
  }
  return terminal;
}

} // namespace

const epoch_record& history::last() const {
  if (epochs.empty())
    throw std::logic_error("no epoch was completed");
  return epochs.back();
}

std::string with_commas(std::uint64_t x) {
  auto text = std::to_string(x);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

std::string as_duration(double seconds) {
  const auto s = static_cast<long long>(std::clamp(seconds, 0.0, 3.6e8) + 0.5);
  return s < 3600 ? format("%lld:%02lld", s / 60, s % 60)
                  : format("%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

std::optional<std::size_t> terminal_columns() {
  if (!::isatty(STDERR_FILENO))
    return std::nullopt;
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  return 80;
}

std::string plain_line(const progress_state& state) {
  auto head = epoch_text(state);
  if (state.steps > 0)
    head += format("  %3.0f%%", 100 * fraction_done(state));
  std::vector<std::string> texts{head};
  if (state.seconds > 0)
    texts.push_back(rounded_rate(state.examples_timed, state.seconds) + "/s");
  for (auto& one : metric_texts(state.loss, state.metrics))
    texts.push_back(std::move(one));
  if (auto left = time_left(state); !left.empty())
    texts.push_back(std::move(left));
  return folded(texts, 80);
}

std::string bar_line(const progress_state& state, std::size_t width) {
  auto tail = format("%3.0f%%", 100 * fraction_done(state));
  if (state.seconds > 0)
    tail += "  " + rounded_rate(state.examples_timed, state.seconds) + "/s";
  for (const auto& one : metric_texts(state.loss, state.metrics))
    tail += "  " + one;
  if (const auto left = time_left(state); !left.empty())
    tail += "  " + left;
  const auto head = epoch_text(state) + " ";
  // "[" and "] " take 3 columns, and the last column stays empty.
  const auto used = head.size() + tail.size() + 4;
  const auto bar_width =
    width > used ? std::min<std::size_t>(width - used, 30) : 0;
  std::string bar;
  if (bar_width >= 5) {
    const auto full = static_cast<std::size_t>(
      fraction_done(state) * static_cast<double>(bar_width));
    bar =
      "[" + std::string(full, '#') + std::string(bar_width - full, '.') + "] ";
  }
  return (head + bar + tail).substr(0, width > 0 ? width - 1 : 0);
}

std::string epoch_line(const epoch_record& record, std::uint64_t epochs,
                       std::size_t width) {
  std::vector<std::string> texts{"epoch " + std::to_string(record.epoch) + "/"
                                   + std::to_string(epochs),
                                 as_duration(record.seconds)};
  if (record.seconds > 0)
    texts.push_back(rounded_rate(record.examples, record.seconds) + "/s");
  const bool is_validated =
    !std::isnan(record.validation_loss) || !record.validation_metrics.empty();
  const auto add = [&](const std::string& name, double value,
                       const double* validation) {
    texts.push_back(value_text(name, value));
    if (validation)
      texts.back() += " val " + bare_value_text(name, *validation);
  };
  add("loss", record.loss, is_validated ? &record.validation_loss : nullptr);
  for (const auto& one : record.metrics) {
    const auto found = std::ranges::find(record.validation_metrics, one.name,
                                         &metric_value::name);
    add(shown_name(one.name), one.value,
        found == record.validation_metrics.end() ? nullptr : &found->value);
  }
  return folded(texts, width);
}

progress::progress(progress_style style) : progress{style, standard_error()} {
  if (style_ == progress_style::automatic)
    style_ = terminal_columns() || relayed_columns() ? progress_style::bar
                                                     : progress_style::lines;
}

progress::progress(progress_style style, sink to)
  : style_{style}, sink_{std::move(to)} {}

progress::~progress() {
  finish_line();
}

void progress::begin(const progress_state& state, const metric_list& metrics,
                     std::span<const double> sums) {
  state_ = state;
  state_.examples_timed = 0;
  metrics_ = metrics;
  sums_.assign(sums.begin(), sums.end());
  sums_.resize(metrics.sum_count());
  begin_time_ = sink_.now ? sink_.now() : 0;
  next_draw_time_ =
    begin_time_ + (style_ == progress_style::bar ? 0 : line_interval);
}

void progress::step(std::uint64_t examples, std::span<const double> sums) {
  ++state_.step;
  state_.examples += examples;
  state_.examples_timed += examples;
  for (std::size_t i = 0; i < std::min(sums.size(), sums_.size()); ++i)
    sums_[i] += sums[i];
  if (style_ == progress_style::none)
    return;
  if (const auto now = sink_.now(); now >= next_draw_time_)
    draw(now);
}

void progress::draw(double now) {
  const auto examples =
    static_cast<double>(std::max<std::uint64_t>(state_.examples, 1));
  state_.loss = sums_[metric_list::loss_sum] / examples;
  state_.metrics = metrics_.values(sums_);
  state_.seconds = now - begin_time_;
  if (style_ == progress_style::bar) {
    auto line = bar_line(state_, sink_.width);
    const auto columns = line.size();
    if (columns < drawn_columns_)
      line.append(drawn_columns_ - columns, ' ');
    drawn_columns_ = sink_.is_relayed ? 0 : columns;
    sink_.write("\r" + line + (sink_.is_relayed ? "\n" : ""));
    next_draw_time_ = now + redraw_interval;
  } else {
    sink_.write(plain_line(state_) + "\n");
    next_draw_time_ = now + line_interval;
  }
}

void progress::end(const epoch_record& record) {
  if (style_ == progress_style::none)
    return;
  auto line = epoch_line(record, state_.epochs, sink_.width);
  const auto columns = std::min(line.find('\n'), line.size());
  if (columns < drawn_columns_) // the rest of the bar
    line.insert(columns, drawn_columns_ - columns, ' ');
  sink_.write((drawn_columns_ > 0 ? "\r" : "") + line + "\n");
  drawn_columns_ = 0;
}

void progress::finish_line() {
  if (std::exchange(drawn_columns_, 0) > 0)
    sink_.write("\n");
}

} // namespace troupe
