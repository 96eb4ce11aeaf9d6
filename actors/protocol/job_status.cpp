#include "troupe/actors/protocol/job_status.hpp"

#include "troupe/net/base/text.hpp"

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
      return "active";
    case member_state::silent:
      return "unreachable";
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
  auto text = "job " + net::printable(x.job) + ", generation "
              + std::to_string(x.epoch) + ", step " + std::to_string(x.step);
  if (x.window_ms > 0)
    text += line(", %.4g steps/s over ", x.steps_per_second)
            + seconds(x.window_ms) + ", last commit " + seconds(x.news_ms)
            + " ago";
  std::size_t widest = 6;
  std::vector<std::string> names;
  for (const auto& one : x.members) {
    names.push_back(net::printable(one.name));
    widest = std::max(widest, names.back().size());
  }
  text += "\n" + std::string{"member"} + std::string(widest - 6, ' ')
          + "  state        incarnation       last contact\n";
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& one = x.members[i];
    text +=
      names[i] + std::string(widest - names[i].size(), ' ')
      + line("  %-11s  %016" PRIx64 "  ", to_string(one.state).c_str(),
             one.incarnation)
      + (one.state == member_state::absent ? "never"
                                           : seconds(one.silence_ms) + " ago")
      + "\n";
  }
  if (!x.waiting.empty())
    text += "step " + std::to_string(x.step) + " is not done: "
            + net::printable(x.waiting, net::max_sentence_bytes) + "\n";
  return text;
}

} // namespace troupe
