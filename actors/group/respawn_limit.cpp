#include "troupe/actors/group/respawn_limit.hpp"

#include <algorithm>

namespace troupe {

bool is_end_of_role(const failure_report& report) {
  switch (report.kind) {
    case failure_kind::replica_lost:
    case failure_kind::reducer_lost:
    case failure_kind::replica_missing:
    case failure_kind::reducer_missing:
    case failure_kind::chief_terminated:
      return true;
    default:
      return false;
  }
}

bool respawn_limit::on_end(std::chrono::nanoseconds now,
                           const std::optional<view_change::job_position>& at,
                           const std::string& text) {
  last_ = {now, at, text};
  std::erase_if(ends_, [&](const end_of_role& x) {
    return now - x.time >= window_ && x.at != at;
  });
  if (ends_.size() >= max_respawns_)
    return false;
  ends_.push_back(last_);
  return true;
}

std::string respawn_limit::describe() const {
  const auto first = ends_.empty() ? last_.time : ends_.front().time;
  const auto span =
    std::max<std::chrono::nanoseconds>(window_, last_.time - first);
  auto out =
    last_.text + "; before, within "
    + std::to_string(std::chrono::ceil<std::chrono::seconds>(span).count())
    + " s: ";
  for (const auto& one : ends_)
    out += (&one == &ends_.front() ? "" : "; ") + one.text;
  return out;
}

} // namespace troupe
