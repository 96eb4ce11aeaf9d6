#pragma once

#include "troupe/actors/protocol/shard_actor.hpp"

#include <caf/actor_addr.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace troupe {

/// The shards of a process, so that several clients can use one. Any thread may
/// call all functions.
class shard_directory {
public:
  /// @param job name of the job, which is unique.
  void add(const std::string& job, std::uint32_t index, const shard_actor& one);
  /// Returns a shard. Null: there is none, or it has ended.
  shard_actor find(const std::string& job, std::uint32_t index) const;

private:
  mutable std::mutex lock_;
  /// Weak, so that a shard ends with its owner.
  std::map<std::pair<std::string, std::uint32_t>, caf::actor_addr> shards_;
};

/// Gives a client access to a shard that another client has made: it passes
/// each message on, and ends with the shard.
shard_actor::behavior_type shard_access(shard_actor::pointer self,
                                        const shard_actor& target);

} // namespace troupe
