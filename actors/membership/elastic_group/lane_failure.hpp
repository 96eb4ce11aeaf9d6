#pragma once

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/membership/peers/peer_table.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// The lanes of a view between this process and other members could not be
/// opened.
struct lane_failure : job_error {
  lane_failure(ec code, const std::string& message,
               std::vector<std::uint32_t> missing)
    : job_error{code, message}, tasks{std::move(missing)} {}

  std::vector<std::uint32_t> tasks; ///< Tasks of these members.
};

/// Returns the members whose streams are missing after this process has waited
/// for some time. These are the members with a failed dial. If there are none,
/// they are all members whose streams are not open.
/// @param first the first member in the order of `of` whose streams were not
///              taken yet.
/// @pre the lock of the table is held.
std::vector<std::uint32_t> members_without_streams(const peer_table& peers,
                                                   const membership::view& of,
                                                   std::uint32_t first);

} // namespace troupe
