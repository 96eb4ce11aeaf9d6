#pragma once

#include "troupe/strategies/membership/view_change.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe {

/// Says why the members of a job agree on another view: "worker 2 was lost: the
/// stream ends", or "worker 1 has begun a change of the view: it cannot reach
/// worker 2".
/// @param losses how this process has lost members, by task: "was lost: the
///               stream ends". If there are any, they are the reason.
/// @param self   task of this process.
/// @param names  names of the processes, by task.
std::string describe(const view_change::change_reasons& why,
                     const std::map<std::uint32_t, std::string>& losses,
                     std::uint32_t self, const std::vector<std::string>& names);

} // namespace troupe
