#pragma once

#include "troupe/actors/collectives/lane_backend.hpp"
#include "troupe/net/shm/event_notifier.hpp"

#include <condition_variable>
#include <mutex>

namespace troupe {

/// State of a lane backend. One lock guards all members. The driver releases
/// the lock while it sleeps and between polls.
struct lane_backend::impl {
  using unique_lock = std::unique_lock<std::mutex>;

  impl(const local_placement& placement,
       std::vector<peer_lanes> lanes_by_process,
       const lane_backend_options& backend_options);

  /// @param hosts the processes that take part, with their lanes.
  template <class Processes>
  impl(Processes&& hosts, const lane_backend_options& backend_options);

  // Implemented in lane_backend.cpp.
  std::optional<peer_failure> check_for_failure();
  void progress_for_others(std::uint64_t completed);

  // Implemented in progress_driver.cpp.
  bool holds(std::uint32_t replica, const wait_condition& condition);
  bool has_failed(std::uint32_t replica, const wait_condition& condition);
  bool make_progress();
  bool flush();
  void notify();
  wait_status on_ready();
  struct driver_scope;
  wait_status drive(unique_lock& locked, std::uint32_t replica,
                    const wait_condition& condition);
  void poll(unique_lock& locked, std::uint32_t replica,
            const wait_condition& condition);
  void sleep(unique_lock& locked);

  lane_backend_options options;
  std::mutex lock;
  std::condition_variable progressed;
  collective::state_machine machine;
  lane_transport transport;
  /// Number in the job of each process that takes part in collectives.
  std::vector<std::uint32_t> process_numbers;
  std::vector<net::lane*> lanes;
  std::vector<pollfd> watched;
  net::event_notifier notifier; ///< Wakes the driver.
  bool has_driver = false;      ///< True while a thread is the driver.
  bool driver_sleeps = false;   ///< True while the driver sleeps.
  /// True if a driver that shares its core has polled without success since the
  /// last wait that succeeded.
  bool last_poll_failed = false;
  int followers = 0; ///< Number of threads that wait for the driver.
  /// The first lane that closed, or the first violation of the protocol on a
  /// lane. It is never reset.
  std::optional<peer_failure> failure;
};

} // namespace troupe
