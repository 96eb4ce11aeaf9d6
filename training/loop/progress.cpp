#include "troupe/training/loop/progress.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace troupe {

namespace {

constexpr double redraw = 0.1, line_every = 10; // Seconds.

template <class... Ts>
std::string format(const char* how, Ts... xs) {
  char text[96];
  std::snprintf(text, sizeof text, how, xs...);
  return text;
}

std::string loss_text(double loss) {
  if (!std::isfinite(loss))
    return "loss is not finite";
  return format(std::abs(loss) < 1e5 ? "loss %.4f" : "loss %.3e", loss);
}

std::string measures(double loss, double accuracy) {
  return loss_text(loss) + format("  accuracy %.2f%%", 100 * accuracy);
}

std::string rounded_rate(std::uint64_t examples, double seconds) {
  return with_commas(static_cast<std::uint64_t>(
    std::llround(static_cast<double>(examples) / seconds)));
}

std::string rate(std::uint64_t examples, double seconds) {
  return seconds > 0 ? rounded_rate(examples, seconds) + " examples/s  " : "";
}

std::string count(const progress_state& x) {
  return "epoch " + std::to_string(x.epoch) + "/" + std::to_string(x.epochs);
}

double part_done(const progress_state& x) {
  return std::clamp(
    static_cast<double>(x.step)
      / static_cast<double>(std::max<std::uint64_t>(x.steps, 1)),
    0.0, 1.0);
}

std::string time_left(const progress_state& x) {
  if (x.step == 0 || x.steps <= x.step || x.seconds <= 0
      || x.examples_timed == 0 || x.examples == 0)
    return {};
  const auto per_step =
    static_cast<double>(x.examples) / static_cast<double>(x.step);
  const auto left = static_cast<double>(x.steps - x.step) * per_step;
  return "  "
         + as_duration(left * x.seconds / static_cast<double>(x.examples_timed))
         + " left";
}

progress::sink standard_error() {
  progress::sink to;
  to.write = [](std::string_view text) {
    while (!text.empty()) {
      const auto n = ::write(STDERR_FILENO, text.data(), text.size());
      if (n <= 0)
        return; // A failure to print progress does not end the training.
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  };
  to.now = [] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  };
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    to.width = size.ws_col;
  return to;
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

std::string plain_line(const progress_state& x) {
  auto text = count(x);
  if (x.steps > 0)
    text += format("  %3.0f%%", 100 * part_done(x));
  return text + "  " + rate(x.examples_timed, x.seconds)
         + measures(x.loss, x.accuracy) + time_left(x);
}

std::string bar_line(const progress_state& x, std::size_t width) {
  auto tail = format("%3.0f%%  ", 100 * part_done(x));
  if (x.seconds > 0)
    tail += rounded_rate(x.examples_timed, x.seconds) + "/s  ";
  tail += loss_text(x.loss) + format("  acc %.2f%%", 100 * x.accuracy);
  tail += time_left(x);
  const auto head = count(x) + " ";
  // "[", "] " and the last column.
  const auto used = head.size() + tail.size() + 4;
  const auto room = width > used ? std::min<std::size_t>(width - used, 30) : 0;
  std::string bar;
  if (room >= 5) {
    const auto full =
      static_cast<std::size_t>(part_done(x) * static_cast<double>(room));
    bar = "[" + std::string(full, '#') + std::string(room - full, '.') + "] ";
  }
  return (head + bar + tail).substr(0, width > 0 ? width - 1 : 0);
}

std::string epoch_line(const epoch_record& x, std::uint64_t epochs) {
  auto text = "epoch " + std::to_string(x.epoch) + "/" + std::to_string(epochs)
              + "  " + as_duration(x.seconds) + "  "
              + rate(x.examples, x.seconds) + measures(x.loss, x.accuracy);
  if (!std::isnan(x.validation_loss) || !std::isnan(x.validation_accuracy))
    text +=
      "  validation " + measures(x.validation_loss, x.validation_accuracy);
  return text;
}

progress::progress(progress_style style) : progress{style, standard_error()} {
  if (style_ == progress_style::automatic)
    style_ =
      ::isatty(STDERR_FILENO) ? progress_style::bar : progress_style::lines;
}

progress::progress(progress_style style, sink to)
  : style_{style}, to_{std::move(to)} {}

progress::~progress() {
  leave();
}

void progress::begin(const progress_state& at) {
  at_ = at;
  at_.examples_timed = 0;
  loss_sum_ = at.loss * static_cast<double>(at.examples);
  correct_ = at.accuracy * static_cast<double>(at.examples);
  began_ = to_.now ? to_.now() : 0;
  next_ = began_ + (style_ == progress_style::bar ? 0 : line_every);
}

void progress::step(std::uint64_t examples, double loss_sum, double correct) {
  ++at_.step;
  at_.examples += examples;
  at_.examples_timed += examples;
  loss_sum_ += loss_sum;
  correct_ += correct;
  if (style_ == progress_style::none)
    return;
  if (const auto now = to_.now(); now >= next_)
    draw(now);
}

void progress::draw(double now) {
  const auto examples =
    static_cast<double>(std::max<std::uint64_t>(at_.examples, 1));
  at_.loss = loss_sum_ / examples;
  at_.accuracy = correct_ / examples;
  at_.seconds = now - began_;
  if (style_ == progress_style::bar) {
    auto line = bar_line(at_, to_.width);
    const auto columns = line.size();
    if (columns < drawn_)
      line.append(drawn_ - columns, ' ');
    drawn_ = columns;
    to_.write("\r" + line);
    next_ = now + redraw;
  } else {
    to_.write(plain_line(at_) + "\n");
    next_ = now + line_every;
  }
}

void progress::end(const epoch_record& x) {
  if (style_ == progress_style::none)
    return;
  auto line = epoch_line(x, at_.epochs);
  if (line.size() < drawn_)
    line.append(drawn_ - line.size(), ' ');
  to_.write((drawn_ > 0 ? "\r" : "") + line + "\n");
  drawn_ = 0;
}

void progress::leave() {
  if (std::exchange(drawn_, 0) > 0)
    to_.write("\n");
}

} // namespace troupe
