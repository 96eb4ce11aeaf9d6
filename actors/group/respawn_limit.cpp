#include "troupe/actors/group/respawn_limit.hpp"

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
                           const std::string& text) {
  last_ = text;
  while (!ends_.empty() && now - ends_.front().time >= window_)
    ends_.pop_front();
  if (ends_.size() >= max_respawns_)
    return false;
  ends_.push_back({now, text});
  return true;
}

std::string respawn_limit::describe() const {
  auto out = last_ + "; before, within "
             + std::to_string(window_.count() / 1000) + " s: ";
  for (const auto& one : ends_)
    out += (&one == &ends_.front() ? "" : "; ") + one.text;
  return out;
}

} // namespace troupe
