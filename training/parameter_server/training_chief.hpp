#pragma once

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/protocol/shard_router_actor.hpp"

#include <cstdint>
#include <functional>
#include <memory>

namespace troupe {

class parameter_servers;

/// Makes this process the chief of a training with synchronous parts, as long
/// as this object exists. The router of the servers hosts the chief. It can
/// call the functions of `lead_training` for a while after the end.
class training_chief {
public:
  /// @param on_end called once, on any thread, if the chief ends by an error.
  /// @errors throws `job_error` if it does not begin in time.
  training_chief(const parameter_servers& servers, lead_training what,
                 std::function<void(const job_error&)> on_end);
  ~training_chief();
  training_chief(const training_chief&) = delete;
  training_chief& operator=(const training_chief&) = delete;

private:
  const shard_router_actor router_;
  const std::uint64_t training_;
};

/// Tells the chief of a training that a replica has contributed to all steps
/// below a number. Any thread may call it.
void tell_chief(const shard_router_actor& router, std::uint64_t training,
                std::uint32_t replica, std::uint64_t next_step);

} // namespace troupe
