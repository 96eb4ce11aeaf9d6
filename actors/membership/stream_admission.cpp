#include "troupe/actors/membership/stream_admission.hpp"

namespace troupe {

std::string stream_refusal(const membership::view& current,
                           const membership::join_request& dialer,
                           std::uint64_t view_id,
                           const std::vector<std::string>& names,
                           std::uint32_t own_task) {
  if (view_id < current.view_id)
    return names[own_task] + " is in view " + std::to_string(current.view_id)
           + " of the job, but the stream belongs to view "
           + std::to_string(view_id);
  // A process that joins with a later view may know it before this one.
  if (current.view_id > 0 && view_id == current.view_id
      && !current.contains(dialer.task, dialer.incarnation))
    return "another process is the admitted " + names[dialer.task];
  return {};
}

} // namespace troupe
