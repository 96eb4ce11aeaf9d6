#include "troupe/actors/membership/peers/membership_context.hpp"

#include <algorithm>

namespace troupe {

using std::chrono::milliseconds;

membership_context::membership_context(pointer self,
                                       const membership_options& options)
  : self_{self}, options_{options}, begun_{now()} {}

bool membership_context::is_current(std::uint64_t view_id) const {
  return peers().get([&] { return peers().view.view_id == view_id; });
}

milliseconds membership_context::remaining() const {
  return std::max(std::chrono::duration_cast<milliseconds>(
                    begun_ + options_.start_timeout - now()),
                  milliseconds{0});
}

} // namespace troupe
