#include "troupe/actors/membership/elastic_group/renewal_limit.hpp"

namespace troupe {

bool renewal_limit::on_renewal(std::chrono::milliseconds now,
                               std::uint64_t view_id,
                               const view_change::job_position& at,
                               const std::string& reason) {
  if (at != position_)
    renewals_.clear();
  position_ = at;
  renewals_.push_back({now, view_id, reason});
  const bool is_slow = now - renewals_.front().time >= slow_after;
  return renewals_.size() <= (is_slow ? max_slow_renewals : max_renewals);
}

std::string renewal_limit::describe() const {
  std::string out;
  for (const auto& x : renewals_)
    out += (out.empty() ? "view " : "; view ") + std::to_string(x.view_id)
           + " after "
           + std::to_string((x.time - renewals_.front().time).count())
           + " ms: " + x.reason;
  return out;
}

} // namespace troupe
