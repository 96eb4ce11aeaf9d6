#include "troupe/actors/status.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace troupe {

namespace {

template <class... Ts>
std::string line(const char* format, Ts... xs) {
  char text[160];
  std::snprintf(text, sizeof text, format, xs...);
  return text;
}

std::string seconds(std::uint64_t ms) {
  return line("%.1f s", static_cast<double>(ms) / 1000);
}

} // namespace

std::string to_string(member_state x) {
  switch (x) {
    case member_state::joining:
      return "joining";
    case member_state::seated:
      return "seated";
    case member_state::silent:
      return "silent";
    case member_state::lost:
      return "lost";
    case member_state::left:
      return "left";
    case member_state::absent:
      return "absent";
  }
  return "?";
}

std::string to_text(const job_status& x) {
  auto text = "job " + x.job + ", epoch " + std::to_string(x.epoch) + ", step "
              + std::to_string(x.step);
  if (x.window_ms > 0)
    text += line(", %.4g steps/s over ", x.steps_per_second)
            + seconds(x.window_ms) + ", last commit " + seconds(x.news_ms)
            + " ago";
  std::size_t widest = 6;
  for (const auto& one : x.members)
    widest = std::max(widest, one.name.size());
  text += "\n" + std::string{"member"} + std::string(widest - 6, ' ')
          + "  state    incarnation       last news\n";
  for (const auto& one : x.members)
    text +=
      one.name + std::string(widest - one.name.size(), ' ')
      + line("  %-7s  %016" PRIx64 "  ", to_string(one.state).c_str(),
             one.incarnation)
      + (one.state == member_state::absent ? "never"
                                           : seconds(one.silence_ms) + " ago")
      + "\n";
  if (!x.waiting.empty())
    text +=
      "step " + std::to_string(x.step) + " is not done: " + x.waiting + "\n";
  return text;
}

} // namespace troupe
