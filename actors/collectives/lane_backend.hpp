#pragma once

#include "troupe/actors/collectives/lane_transport.hpp"
#include "troupe/strategies/collective/state_machine.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct data_plane_options {
  /// How long somebody who waits polls before he sleeps; 0: where there are
  /// more replicas than cores on the host.
  std::chrono::microseconds polling{0};
  /// Longest sleep between two looks at a replica's mailbox.
  std::chrono::milliseconds nap{3};
  std::shared_ptr<fault_seam> faults{}; ///< Null: none.
  /// What processes are called, such as "worker 1"; by default "process 1".
  std::vector<std::string> names{};
  /// Where nobody may sleep, as in the simulator: `wait` then only looks and
  /// moves, and this is called whenever those who wait had better look again,
  /// under the plane's lock. Null: whoever waits sleeps on the lanes.
  std::function<void()> wake{};
  /// The time that delays of faults go by; null: the system's.
  courier_clock now{};
};

/// A process's side of the sums and gathers over processes (exchange.hpp),
/// shared by its replicas, each on a thread of its own. Whoever waits drives
/// it; the others wait until they are told.
class data_plane {
public:
  /// @param lanes by process; this one's are empty.
  /// @errors throws std::logic_error if that is not what the layout says.
  data_plane(const exchange::layout& at, std::vector<peer_lanes> lanes,
             const data_plane_options& options = {});
  ~data_plane();
  data_plane(const data_plane&) = delete;
  data_plane& operator=(const data_plane&) = delete;

  const exchange::layout& at() const;

  /// Whether who waits may sleep; else `wake` was given.
  bool sleeps() const;

  /// Why nothing can go on.
  struct trouble {
    std::uint32_t process = 0;           ///< Who is to blame.
    net::ending how = net::ending::dead; ///< broken: a rule.
    std::string why; ///< "worker 1 (replicas 2, 3) is gone: ..."
  };

  // -- what a replica says; on its thread -------------------------------------

  /// As exchange::machine's.
  void seat(std::uint32_t replica, std::uint64_t epoch);
  void enter(std::uint32_t replica, std::uint64_t step);
  void leave(std::uint32_t replica);

  /// Each moves whatever can be moved.
  void contribute(std::uint32_t replica, std::uint32_t bucket,
                  const tensor& part, const terms& said = {},
                  exchange::room of_sum = exchange::room::own);
  void gather(std::uint32_t replica, std::uint32_t bucket, const tensor& part,
              const terms& said = {});

  /// What a replica waits for.
  struct wish {
    enum class kind { sum, gather, complete, settled } what = kind::settled;
    std::uint32_t bucket = 0; ///< Of a sum or gather.
  };
  enum class news { granted, waiting, troubled };

  /// Drives, or waits for who does, until the wish is granted or a nap is over.
  /// @param patient false: only looks and moves.
  news wait(std::uint32_t replica, const wish& x, bool patient);

  /// Whether the replica's step goes on: no other replica here has left it
  /// early, or taken the seat of a newer epoch.
  bool current(std::uint32_t replica);
  tensor sum_of(std::uint32_t replica, std::uint32_t bucket);
  tensors gathered(std::uint32_t replica, std::uint32_t bucket);
  std::optional<trouble> troubled();
  /// Bucket of the first exchange that is incomplete; 0 if none is.
  std::uint32_t incomplete(std::uint32_t replica);
  std::optional<exchange::lack> lacking(std::uint64_t step);
  /// The replicas of processes that have yet to take what was sent to them, or
  /// to read what was lent.
  std::vector<std::uint32_t> unread();

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
