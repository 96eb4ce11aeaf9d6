#pragma once

#include "troupe/actors/core/fault_injector.hpp"
#include "troupe/net/lanes/lane.hpp"
#include "troupe/strategies/collective/packet.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// The two lanes to another process: one for contributions, one for results.
struct peer_lanes {
  std::unique_ptr<net::lane> parts, sums;
};

/// Returns the time. Null: the system's steady clock is used.
using courier_clock = std::function<std::chrono::steady_clock::time_point()>;

/// Sends the packets of collectives over lanes and injects faults. The fault
/// injector sees a packet as a message from the first replica of the sending
/// process to the first replica of the receiving one.
class lane_courier final : public exchange::courier {
public:
  /// @param lanes  lanes to each process; those of this process are null.
  /// @param faults fault injector. Null: none.
  /// @errors throws std::logic_error if `lanes` does not fit the placement.
  lane_courier(const exchange::layout& at, std::vector<peer_lanes> lanes,
               std::shared_ptr<fault_seam> faults, courier_clock now = {});
  ~lane_courier() override;

  /// @returns a lane to a process. @pre it is not this process.
  net::lane& of(std::uint32_t process, exchange::queue by) {
    auto& x = lanes_[process];
    return by == exchange::queue::parts ? *x.parts : *x.sums;
  }

  /// Sends queued packets of all lanes as far as the lanes are writable.
  /// @returns true if no sent packet is left in this process and no peer reads
  ///          a zero-copy buffer any more.
  bool flush();
  /// Sends queued packets of the lanes to one process as far as they are
  /// writable.
  /// @returns true if no packet sent to it is left in this process and it reads
  ///          no zero-copy buffer any more.
  bool flush(std::uint32_t to);

  std::span<std::byte> room(std::uint32_t to, exchange::queue by) override;
  void post(std::uint32_t to, exchange::queue by, const exchange::head& x,
            std::size_t bytes) override;
  bool post(std::uint32_t to, exchange::queue by, const exchange::head& x,
            std::span<const std::byte> bytes) override;

  bool lend(std::uint32_t to, exchange::queue by, const exchange::head& x,
            std::span<const std::byte> bytes) override;

  const exchange::head* front(std::uint32_t from, exchange::queue by) override {
    return of(from, by).front();
  }
  std::size_t front_bytes(std::uint32_t from, exchange::queue by) override {
    return of(from, by).front_bytes();
  }
  std::span<const std::byte> view(std::uint32_t from,
                                  exchange::queue by) override {
    return of(from, by).view();
  }
  bool fetch(std::uint32_t from, exchange::queue by,
             std::span<std::byte> into) override {
    return of(from, by).fetch(into);
  }
  void pop(std::uint32_t from, exchange::queue by) override {
    of(from, by).pop();
  }

private:
  struct held; ///< A packet that a fault delays.
  bool blocked(std::uint32_t to, exchange::queue by);
  bool post_fated(std::uint32_t to, exchange::queue by, exchange::head x,
                  std::span<const std::byte> bytes);

  exchange::layout at_;
  std::vector<peer_lanes> lanes_;
  std::shared_ptr<fault_seam> faults_;
  courier_clock now_;
  /// Delayed packet of each lane, indexed by 2 * process + lane.
  std::vector<std::optional<held>> held_;
};

} // namespace troupe
