#pragma once

#include "troupe/actors/membership/state_lanes.hpp"
#include "troupe/tests/net/lanes/lanes.hpp"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Ends of the lane over which the state of a model is copied.

namespace troupe::test {

/// Both ends of such a lane: the source's and the follower's.
inline std::pair<std::unique_ptr<transfer_lane>, std::unique_ptr<transfer_lane>>
state_lane_ends(const std::string& kind = "stream") {
  auto lanes = net::testing::make_lanes(kind);
  return {std::make_unique<transfer_lane>(std::move(lanes.left),
                                          tensor_transfer::lane_ends{0, 1, 2}),
          std::make_unique<transfer_lane>(std::move(lanes.right),
                                          tensor_transfer::lane_ends{0, 2, 1})};
}

/// Lanes of a process without a network. The test accepts and opens them.
class local_state_lanes final : public state_lanes {
public:
  void serve(std::function<void(opener)> accepted) override {
    accepted_ = std::move(accepted);
  }
  std::vector<std::uint32_t> sources() const override { return {0}; }
  /// Opens a lane to this process itself.
  std::unique_ptr<transfer_lane> open(std::uint32_t,
                                      std::chrono::milliseconds) override {
    auto [source, follower] = state_lane_ends();
    const auto shared =
      std::make_shared<std::unique_ptr<transfer_lane>>(std::move(source));
    accepted_([shared] { return std::move(*shared); });
    return std::move(follower);
  }
  std::string name(std::uint32_t) const override { return "worker 0"; }

private:
  std::function<void(opener)> accepted_;
};

} // namespace troupe::test
