#include "troupe/actors/group/replica_group.hpp"

#include "troupe/actors/group/job_status_source.hpp"

namespace troupe {

std::shared_ptr<job_status_source> replica_group::status_source() const {
  return nullptr;
}

} // namespace troupe
