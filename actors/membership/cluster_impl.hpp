#pragma once

#include "troupe/actors/collectives/nccl/communicator/communicator_channels.hpp"
#include "troupe/actors/collectives/nccl/nccl_setup.hpp"
#include "troupe/actors/group/world.hpp"
#include "troupe/actors/membership/actor/spawn_membership.hpp"
#include "troupe/actors/membership/cluster.hpp"
#include "troupe/actors/membership/job_overview.hpp"
#include "troupe/actors/membership/state_lanes.hpp"
#include "troupe/net/session/service_router.hpp"
#include "troupe/net/shm/event_notifier.hpp"
#include "troupe/strategies/error_code.hpp"

#include <caf/actor.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

class cluster::impl {
public:
  impl(runtime& local_runtime, cluster_options&& initial_options);
  ~impl();

  void join();
  void leave() noexcept;

  /// Makes the replica group of this process, which enters later views.
  /// @pre the job has more than one process.
  /// @errors throws std::logic_error on the second call.
  std::unique_ptr<replica_group>
  make_elastic_group(const replica_group_options& group_options);

  /// Makes the lanes for the state of processes that join.
  std::unique_ptr<state_lanes> make_state_lanes();

  std::uint32_t processes() const {
    return static_cast<std::uint32_t>(options.names.size());
  }
  /// Returns the actor that answers status queries. Null: another job of this
  /// process answers them.
  const caf::actor& status_service() const { return status_service_; }

  const std::string& own_name() const { return options.names[options.task]; }
  membership::view current_view() const;
  job_overview overview() const {
    return {peers_, options.job, options.names, incarnation_, options.task};
  }
  /// What this process knows of the job, with its control connections.
  const std::shared_ptr<peer_table>& peers() const { return peers_; }
  /// Placement of the first view. @pre this process has joined.
  placement job_placement() const { return placement_of(view_); }

  runtime& local_runtime;
  cluster_options options;
  std::vector<std::string> transports; ///< By task, see `transport_to`.
  std::atomic<bool> uses_nccl = false; ///< As `cluster::uses_nccl`.
private:
  class lanes_of_state;

  void check() const;
  void check_spare(const std::function<void(const std::string&)>& refuse) const;
  void end_membership();
  void open_router();
  void register_stream_services();
  void register_admission();
  service_router::service_handler status_handler();
  net::hello_response admit(const net::hello& hello);
  net::hello_response admit_stream(const net::hello& hello);
  net::hello_response admit_spare(const net::hello& hello);
  net::hello_response admit_again(const net::hello& hello);
  void join_task(std::chrono::milliseconds timeout,
                 const membership::view& known_view = {});
  void join_any_task();
  void take_task(std::uint32_t task);
  void reset();
  void make_peer_table();
  void begin_membership(std::chrono::milliseconds timeout,
                        const membership::view& known_view);
  template <class F>
  void wait_for_membership(F&& done);
  void wait_for_view();
  void find_unknown_hosts();
  std::vector<peer_lanes> open_lanes(const membership::view& of,
                                     peer_table::clock::time_point deadline);
  void wait_for_connections(const membership::view& of,
                            peer_table::clock::time_point deadline);
  bool is_outdated(std::uint64_t view_id) const;
  void dial_stream(std::uint64_t view_id, const membership::member& peer,
                   const std::string& purpose,
                   peer_table::clock::time_point deadline);
  peer_lanes open_lane(const membership::view& of,
                       const membership::member& peer,
                       peer_table::clock::time_point begun,
                       peer_table::clock::time_point deadline);
  void wait_for_start();
  static placement placement_of(const membership::view& of);
  std::unique_ptr<replica_group>
  make_group(const replica_group_options& group_options,
             const membership::view& of);
  std::shared_ptr<world> make_world(const replica_group_options& group_options,
                                    const membership::view& of,
                                    std::vector<peer_lanes> lanes) const;
  void connect_devices(world& job, const replica_group_options& group_options,
                       peer_table::clock::time_point deadline);
  std::vector<named_offer>
  wait_for_offers(const communicator_channels& channels, std::uint64_t view_id,
                  peer_table::clock::time_point deadline);
  [[noreturn]] void fail(ec code, const std::string& reason);
  [[noreturn]] void fail_lanes(ec code, const std::string& reason,
                               std::vector<std::uint32_t> missing);
  std::string abort_start(ec code, const std::string& text);
  named_processes named() const;
  void throw_if_failed(std::unique_lock<std::mutex>& hold);
  membership::join_request own_join_request() const;
  net::hello make_hello(const std::string& purpose) const;
  bool is_same_host(const membership::member& peer) const;

  std::shared_ptr<peer_table> peers_;
  nccl_setup nccl_{options.device_sums};
  std::shared_ptr<service_router> router_;
  std::vector<std::unique_ptr<service_router::registration>> registrations_;
  membership_actor membership_;
  caf::actor status_service_;
  std::shared_ptr<net::event_notifier> notifier_;
  std::uint64_t incarnation_ = 0;
  peer_table::clock::time_point deadline_;
  membership::view view_; ///< The view with which the job has begun.
  /// Lanes of that view by process, until the replica group takes them.
  std::vector<peer_lanes> lanes_;
  bool joined_ = false, has_group_ = false;
};

} // namespace troupe
