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

/// The two lanes to another process.
struct peer_lanes {
  std::unique_ptr<net::lane> parts, sums;
};

/// Null: the system's.
using courier_clock = std::function<std::chrono::steady_clock::time_point()>;

/// Carries the parcels of an exchange over lanes, and lets faults in: a parcel
/// is what one process's first replica says to another's.
class lane_courier final : public exchange::courier {
public:
  lane_courier(const exchange::layout& at, std::vector<peer_lanes> lanes,
               std::shared_ptr<fault_seam> faults, courier_clock now = {});
  ~lane_courier() override;

  net::lane& of(std::uint32_t process, exchange::queue by) {
    auto& x = lanes_[process];
    return by == exchange::queue::parts ? *x.parts : *x.sums;
  }

  /// @returns whether nothing that was posted is in this process any more, and
  ///          nothing that was lent is read.
  bool flush();
  bool flush(std::uint32_t to); ///< Of what is for one process.

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
  struct held; ///< A parcel that a fault has delayed.
  bool blocked(std::uint32_t to, exchange::queue by);
  bool post_fated(std::uint32_t to, exchange::queue by, exchange::head x,
                  std::span<const std::byte> bytes);

  exchange::layout at_;
  std::vector<peer_lanes> lanes_;
  std::shared_ptr<fault_seam> faults_;
  courier_clock now_;
  std::vector<std::optional<held>> held_; ///< By process and queue.
};

} // namespace troupe
