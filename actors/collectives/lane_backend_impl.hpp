#pragma once

#include "troupe/actors/collectives/lane_backend.hpp"
#include "troupe/net/shm/event_notifier.hpp"

#include <condition_variable>
#include <mutex>

namespace troupe {

/// State of a lane backend. One lock guards all of it. The driver releases the
/// lock while it sleeps and between polls.
struct data_plane::impl {
  using hold = std::unique_lock<std::mutex>;

  impl(const exchange::layout& at, std::vector<peer_lanes> given,
       const data_plane_options& x);

  // lane_backend.cpp
  void name(std::uint32_t process, net::ending how, const std::string& why);
  trouble told_of(std::uint32_t process, net::ending how,
                  const std::string& why) const;
  std::optional<trouble> look_for_trouble();
  void moved_by_others();

  // progress_driver.cpp
  bool granted(std::uint32_t replica, const wish& x);
  bool stuck(std::uint32_t replica, const wish& x);
  bool move();
  bool flush();
  void tell();
  struct turn;
  news drive(hold& locked, std::uint32_t replica, const wish& x);
  void poll(hold& locked, std::uint32_t replica, const wish& x);
  void sleep(hold& locked);

  data_plane_options options;
  std::mutex lock;
  std::condition_variable told;
  exchange::machine machine;
  lane_courier courier;
  std::vector<net::lane*> lanes;
  std::vector<pollfd> watched;
  net::bell alarm;     ///< Wakes the driver.
  bool driven = false; ///< True while a thread is the driver.
  bool asleep = false; ///< True while the driver sleeps.
  int followers = 0;   ///< Number of threads that wait for the driver.
  /// First lane that closed. Never reset.
  std::optional<trouble> gone;
};

} // namespace troupe
