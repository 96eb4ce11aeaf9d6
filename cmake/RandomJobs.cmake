# random_jobs: protocols under random faults in virtual time. Tests and the benchmark
# program simulate_parameter_servers run them.
add_library(random_jobs STATIC
  ${PROJECT_SOURCE_DIR}/tests/strategies/random_job.cpp
  ${PROJECT_SOURCE_DIR}/tests/strategies/random_jobs.cpp
  ${PROJECT_SOURCE_DIR}/tests/strategies/parameter_server/random_copies_job.cpp
  ${PROJECT_SOURCE_DIR}/tests/strategies/parameter_server/random_server_job.cpp
  ${PROJECT_SOURCE_DIR}/tests/strategies/parameter_server/random_table_job.cpp
  ${PROJECT_SOURCE_DIR}/tests/strategies/coordinator/random_coordinator_job.cpp)
set_target_properties(random_jobs PROPERTIES CXX_EXTENSIONS OFF)
target_link_libraries(random_jobs PUBLIC Troupe::strategies PRIVATE troupe_flags)
troupe_unity_groups(random_jobs)
