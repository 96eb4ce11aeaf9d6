#pragma once

#include "troupe/data/pipeline/stage.hpp"

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace troupe::data {

/// Permutes the elements within each block. The order is drawn from (seed,
/// epoch, block).
class shuffle_stage : public reindexing_stage {
public:
  shuffle_stage(std::shared_ptr<const stage> upstream, std::uint64_t block,
                std::uint64_t seed, bool each_epoch);
  bool differs_per_epoch() const override {
    return each_epoch_ || upstream().differs_per_epoch();
  }

private:
  using order = std::vector<std::uint32_t>;
  struct drawn_order {
    std::uint64_t epoch, block;
    std::shared_ptr<const order> indices;
  };

  void map_positions(std::span<position> positions) const override;
  std::shared_ptr<const order> order_of(std::uint64_t epoch,
                                        std::uint64_t block) const;

  std::uint64_t block_, seed_;
  bool each_epoch_;
  mutable std::mutex lock_;
  mutable std::list<drawn_order> drawn_; ///< Most recently used first.
};

} // namespace troupe::data
