#include "troupe/data/pipeline/batch_stage.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe::data {

batch_stage::batch_stage(std::shared_ptr<const stage> upstream,
                         std::uint64_t count, bool drop)
  : wrapping_stage{std::move(upstream)}, count_{count}, drop_{drop} {
  constexpr auto max_count = std::uint64_t{1} << 32;
  if (count == 0 || count > max_count)
    throw std::invalid_argument("batches of " + std::to_string(count)
                                + " elements: give a number from 1 to 2^32");
}

std::optional<std::uint64_t> batch_stage::size() const {
  const auto below = upstream().size();
  if (!below)
    return below;
  return *below / count_ + (!drop_ && *below % count_ != 0);
}

batch batch_stage::read(const position& pos,
                        const std::stop_token& stop) const {
  return read_rows(pos, {0, std::int64_t(*rows_of(pos))}, stop);
}

std::optional<std::uint64_t> batch_stage::rows_of(const position& pos) const {
  const auto below = upstream().size();
  return below ? std::min(count_, *below - pos.index * count_) : count_;
}

batch batch_stage::read_rows(const position& pos, const row_range& range,
                             const std::stop_token& stop) const {
  if (range.size()
      == 0) { // An empty range takes its shape and dtype from the first row.
    return select_rows(read_rows(pos, {0, 1}, stop), {0, 0});
  }
  const auto first = pos.index * count_ + std::uint64_t(range.begin);
  pooled<position> from(std::size_t(range.size()));
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = {pos.epoch, first + i};
  auto out = upstream().stack(from, stop);
  out.global_rows = std::int64_t(*rows_of(pos));
  return out;
}

shard_stage::shard_stage(std::shared_ptr<const stage> upstream,
                         std::uint32_t first, std::uint32_t last,
                         std::uint32_t shards)
  : wrapping_stage{std::move(upstream)},
    first_{first},
    last_{last},
    shards_{shards} {
  if (first >= last || last > shards)
    throw std::invalid_argument(
      "shards [" + std::to_string(first) + ", " + std::to_string(last) + ") of "
      + std::to_string(shards) + ": give a non-empty range within them");
}

shard_stage::shard_stage(std::shared_ptr<const stage> upstream,
                         std::uint32_t first, std::uint32_t last,
                         std::vector<std::uint32_t> shares)
  : shard_stage{std::move(upstream), first, last,
                static_cast<std::uint32_t>(shares.size())} {
  for (const auto share : shares)
    if (share == 0 || share > max_share)
      throw std::invalid_argument("a share of " + std::to_string(share)
                                  + ": give numbers from 1 to "
                                  + std::to_string(max_share));
  shares_ = std::move(shares);
}

row_range shard_stage::range_of(std::int64_t rows) const {
  return shares_.empty() ? shard_of(rows, first_, last_, shards_)
                         : shard_of(rows, first_, last_, shares_);
}

batch shard_stage::read(const position& pos,
                        const std::stop_token& stop) const {
  if (const auto rows = upstream().rows_of(pos))
    return upstream().read_rows(pos, range_of(std::int64_t(*rows)), stop);
  const auto full_batch = upstream().read(pos, stop);
  if (!is_batch(full_batch))
    throw std::logic_error("shard() needs batches, but this dataset "
                           "yields single examples: call it after batch()");
  return select_rows(full_batch, range_of(full_batch.rows()));
}

} // namespace troupe::data
