#pragma once

#include <cstdint>

namespace troupe::parameter_server {

/// The primary of a shard in a view of the shard, as the workers and the chief
/// see it. Each shard counts its own views.
struct shard_primary {
  std::uint64_t view_id = 0; ///< Zero: there is no view yet.
  std::uint64_t primary = 0; ///< Incarnation of its process.
};

} // namespace troupe::parameter_server
