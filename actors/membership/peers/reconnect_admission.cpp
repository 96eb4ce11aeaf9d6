#include "troupe/actors/membership/peers/reconnect_admission.hpp"

namespace troupe {

std::string reconnect_refusal(const membership::view& current, bool in_job,
                              const reconnect_request& request,
                              const std::vector<std::string>& names,
                              std::uint32_t own_task, std::uint64_t own) {
  const auto& [dialer, view_id, dialed] = request;
  if (dialed != own)
    return names[own_task] + " was started again since the earlier connection";
  if (!in_job || dialer.task == own_task || dialer.task >= names.size())
    return "the job has no connection of this process";
  if (!current.contains(dialer.task, dialer.incarnation)
      && view_id >= current.view_id)
    return names[own_task] + " is in view " + std::to_string(current.view_id)
           + " of the job, which does not have this incarnation of "
           + names[dialer.task];
  return {};
}

} // namespace troupe
