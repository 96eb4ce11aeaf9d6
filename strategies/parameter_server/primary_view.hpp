#pragma once

#include <cstdint>
#include <vector>

namespace troupe::parameter_server {

/// The shards of a job in a view, as the workers and the chief see them.
struct primary_view {
  std::uint64_t view_id = 0;
  std::vector<std::uint64_t> primaries; ///< Incarnations, by shard.
};

} // namespace troupe::parameter_server
