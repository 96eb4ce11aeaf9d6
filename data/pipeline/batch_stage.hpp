#pragma once

#include "troupe/data/pipeline/stage.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace troupe::data {

/// Groups `count` consecutive elements into a batch.
class batch_stage : public wrapping_stage {
public:
  batch_stage(std::shared_ptr<const stage> upstream, std::uint64_t count,
              bool drop);
  std::optional<std::uint64_t> size() const override;
  batch read(const position& pos, const std::stop_token& stop) const override;
  std::optional<std::uint64_t> rows_of(const position& pos) const override;
  batch read_rows(const position& pos, const row_range& range,
                  const std::stop_token& stop) const override;

private:
  std::uint64_t count_;
  bool drop_;
};

/// Cuts each batch into shards, and keeps the rows of shards [first, last).
class shard_stage : public wrapping_stage {
public:
  shard_stage(std::shared_ptr<const stage> upstream, std::uint32_t first,
              std::uint32_t last, std::uint32_t shards);
  /// Divides each batch by shares, one for each shard.
  shard_stage(std::shared_ptr<const stage> upstream, std::uint32_t first,
              std::uint32_t last, std::vector<std::uint32_t> shares);
  batch read(const position& pos, const std::stop_token& stop) const override;

private:
  row_range range_of(std::int64_t rows) const;

  std::uint32_t first_, last_, shards_;
  std::vector<std::uint32_t> shares_; ///< Empty: all shares are equal.
};

} // namespace troupe::data
