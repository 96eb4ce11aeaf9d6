#include "troupe/data/pipeline/shuffle_stage.hpp"

#include "troupe/tensors/random.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace troupe::data {

shuffle_stage::shuffle_stage(std::shared_ptr<const stage> upstream,
                             std::uint64_t block, std::uint64_t seed,
                             bool each_epoch)
  : reindexing_stage{std::move(upstream)},
    block_{block},
    seed_{seed},
    each_epoch_{each_epoch} {
  constexpr auto max_block = std::uint64_t{1} << 31;
  const auto end = size();
  if (block == 0 || std::min(block, end.value_or(whole_dataset)) > max_block)
    throw std::invalid_argument(
      block == 0 ? "shuffle by blocks of 0 elements: give 1 or more, or omit "
                   "the block to "
                   "shuffle all"
      : end
        ? "shuffle of " + std::to_string(*end)
            + " elements as one block: give a block of at most 2^31"
        : "shuffle of an endless dataset as one block: shuffle before repeat, "
          "or give a block size");
}

void shuffle_stage::map_positions(std::span<position> positions) const {
  std::shared_ptr<const order> now;
  std::uint64_t epoch = 0, block = 0;
  for (auto& pos : positions) {
    const auto wanted = pos.index / block_;
    if (!now || pos.epoch != epoch || wanted != block) {
      epoch = pos.epoch;
      block = wanted;
      now = order_of(each_epoch_ ? epoch : 0, block);
    }
    pos.index = block * block_ + (*now)[pos.index - block * block_];
  }
}

std::shared_ptr<const shuffle_stage::order>
shuffle_stage::order_of(std::uint64_t epoch, std::uint64_t block) const {
  // Number of permutations in the cache: enough for cursors that read two
  // epochs, and at most two blocks of each epoch, at the same time.
  constexpr std::size_t kept = 4;
  const std::lock_guard hold{lock_};
  const auto known = std::ranges::find_if(drawn_, [&](const drawn_order& x) {
    return x.epoch == epoch && x.block == block;
  });
  if (known != drawn_.end()) {
    drawn_.splice(drawn_.begin(), drawn_, known);
    return known->indices;
  }
  const auto count =
    std::min(block_, size().value_or(whole_dataset) - block * block_);
  auto indices =
    permutation(count, {.seed = seed_,
                        .replica = static_cast<std::uint32_t>(block),
                        .step = epoch,
                        .op = draws_order});
  drawn_.push_front(
    {epoch, block, std::make_shared<const order>(std::move(indices))});
  if (drawn_.size() > kept)
    drawn_.pop_back();
  return drawn_.front().indices;
}

} // namespace troupe::data
