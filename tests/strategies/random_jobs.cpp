#include "troupe/tests/strategies/random_jobs.hpp"

#include "troupe/tests/strategies/coordinator/random_coordinator_job.hpp"
#include "troupe/tests/strategies/parameter_server/random_copies_job.hpp"
#include "troupe/tests/strategies/parameter_server/random_server_job.hpp"
#include "troupe/tests/strategies/parameter_server/random_table_job.hpp"

namespace troupe {

namespace {

template <class Job>
std::unique_ptr<checked_job> make(std::uint64_t seed) {
  return std::make_unique<Job>(seed);
}

} // namespace

const std::vector<job_protocol>& job_protocols() {
  static const std::vector<job_protocol> all{
    {"parameter_server", make<parameter_server::random_server_job>},
    {"table", make<parameter_server::random_table_job>},
    {"copies", make<parameter_server::random_copies_job>},
    {"coordinator", make<coordinator::random_coordinator_job>},
  };
  return all;
}

} // namespace troupe
