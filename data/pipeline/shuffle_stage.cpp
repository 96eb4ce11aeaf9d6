#include "troupe/data/pipeline/stage.hpp"
#include "troupe/tensors/random.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace troupe::data {

shuffled::shuffled(std::shared_ptr<const stage> on, std::uint64_t block,
                   std::uint64_t seed, bool each_pass)
  : moved{std::move(on)}, block_{block}, seed_{seed}, each_pass_{each_pass} {
  constexpr auto most = std::uint64_t{1} << 31;
  const auto end = size();
  if (block == 0 || std::min(block, end.value_or(whole)) > most)
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

void shuffled::trace(std::span<position> at) const {
  std::shared_ptr<const order> now;
  std::uint64_t pass = 0, block = 0;
  for (auto& x : at) {
    const auto wanted = x.index / block_;
    if (!now || x.pass != pass || wanted != block) {
      pass = x.pass;
      block = wanted;
      now = order_of(each_pass_ ? pass : 0, block);
    }
    x.index = block * block_ + (*now)[x.index - block * block_];
  }
}

std::shared_ptr<const shuffled::order>
shuffled::order_of(std::uint64_t pass, std::uint64_t block) const {
  // Enough for a few cursors, each near the end of an epoch.
  constexpr std::size_t kept = 4;
  const std::lock_guard hold{lock_};
  const auto known = std::ranges::find_if(
    drawn_, [&](const drawn& x) { return x.pass == pass && x.block == block; });
  if (known != drawn_.end()) {
    drawn_.splice(drawn_.begin(), drawn_, known);
    return known->is;
  }
  const auto count = std::min(block_, size().value_or(whole) - block * block_);
  auto is = permutation(count, {.seed = seed_,
                                .replica = static_cast<std::uint32_t>(block),
                                .step = pass,
                                .op = draws_order});
  drawn_.push_front(
    {pass, block, std::make_shared<const order>(std::move(is))});
  if (drawn_.size() > kept)
    drawn_.pop_back();
  return drawn_.front().is;
}

} // namespace troupe::data
