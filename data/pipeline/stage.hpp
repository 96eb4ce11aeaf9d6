#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/data/pipeline/row_range.hpp"

#include <span>
#include <stop_token>
#include <vector>

// Stages form the chain of a dataset. A stage computes element i of an epoch
// from i and the epoch alone; it has no state except caches. Therefore a
// position is two numbers, and several readers can share a chain.

namespace troupe::data {

/// Thrown by a read when its reader has requested a stop.
struct read_cancelled {};

/// One stage of a dataset's chain. Safe to read from several threads.
class stage {
public:
  virtual ~stage() = default;

  /// Number of elements in an epoch. None: the epoch is endless.
  virtual std::optional<std::uint64_t> size() const = 0;
  /// Number of classes: labels are in [0, classes). Zero: the labels are not
  /// class numbers, or there are none.
  virtual std::int64_t classes() const = 0;

  /// True if the order of the elements depends on the epoch.
  virtual bool differs_per_epoch() const = 0;

  /// Reads one element.
  /// @pre `pos.index` is below `size()`.
  /// @errors throws `read_cancelled` soon after a stop is requested, and any
  ///         exception of a user's function.
  virtual batch read(const position& pos,
                     const std::stop_token& stop) const = 0;

  /// Reads elements into one batch, along a new first axis. The default reads
  /// and copies each element.
  /// @pre `positions` is not empty.
  virtual batch stack(std::span<const position> positions,
                      const std::stop_token& stop) const;

  /// Number of rows of an element that is a batch. None: it is unknown until
  /// the batch is read.
  virtual std::optional<std::uint64_t> rows_of(const position&) const {
    return std::nullopt;
  }

  /// Reads some rows of an element that is a batch. The default reads the whole
  /// batch and then takes these rows.
  virtual batch read_rows(const position& pos, const row_range& range,
                          const std::stop_token& stop) const;
};

/// Rejects an element with a tensor that a gradient tape records. Stages copy
/// elements, and the gradient would not flow back through such a copy.
/// @param source Start of the error message: where the element comes from.
/// @errors throws std::logic_error.
void check_unrecorded(const batch& element, const char* source);

/// Checks that all tensors of a batch have the same number of rows.
/// @param source Start of the error message: where the batch comes from.
/// @errors throws std::invalid_argument with the names and shapes.
void check_rows(const batch& x, const char* source);

/// Yields the rows of tensors.
class tensor_stage : public stage {
public:
  /// @param classes Labels are in [0, classes). Zero: the labels are no class
  ///        numbers, or there are none.
  tensor_stage(batch rows, std::int64_t classes);

  std::optional<std::uint64_t> size() const override;
  std::int64_t classes() const override { return classes_; }
  bool differs_per_epoch() const override { return false; }
  batch read(const position& pos, const std::stop_token&) const override;
  batch stack(std::span<const position> positions,
              const std::stop_token&) const override;

private:
  batch rows_;
  std::int64_t classes_;
};

/// Yields rows whose inputs are bytes, which are read as float32 in [0, 1].
class pixel_stage : public stage {
public:
  pixel_stage(tensor pixels, tensor labels, std::int64_t classes);

  std::optional<std::uint64_t> size() const override;
  std::int64_t classes() const override { return classes_; }
  bool differs_per_epoch() const override { return false; }
  batch read(const position& pos, const std::stop_token&) const override;
  batch stack(std::span<const position> positions,
              const std::stop_token&) const override;

private:
  tensor pixels_, labels_;
  std::int64_t classes_;
};

/// Returns the number of classes of these labels.
/// @param classes the number that the user gave. Zero: the maximum label + 1.
/// @errors throws std::invalid_argument for a negative number of classes, and
///         for a label that is not in [0, classes).
std::int64_t checked_classes(std::int64_t classes, const tensor& labels);

/// Element i is the result of a function of i.
class generated_stage : public stage {
public:
  generated_stage(std::uint64_t size, std::int64_t classes,
                  std::function<batch(std::uint64_t)> fn);

  std::optional<std::uint64_t> size() const override { return size_; }
  std::int64_t classes() const override { return classes_; }
  bool differs_per_epoch() const override { return false; }
  batch read(const position& pos, const std::stop_token&) const override;

private:
  std::uint64_t size_;
  std::int64_t classes_;
  std::function<batch(std::uint64_t)> fn_;
};

/// Base of a stage that reads another stage, the upstream stage. The functions
/// of this class call the same functions of the upstream stage.
class wrapping_stage : public stage {
public:
  explicit wrapping_stage(std::shared_ptr<const stage> upstream)
    : upstream_{std::move(upstream)} {}

  std::optional<std::uint64_t> size() const override {
    return upstream_->size();
  }
  std::int64_t classes() const override { return upstream_->classes(); }
  bool differs_per_epoch() const override {
    return upstream_->differs_per_epoch();
  }

protected:
  const stage& upstream() const { return *upstream_; }

private:
  std::shared_ptr<const stage> upstream_;
};

/// Applies a function to each element.
class map_stage : public wrapping_stage {
public:
  map_stage(std::shared_ptr<const stage> upstream,
            std::function<batch(const batch&)> fn);
  batch read(const position& pos, const std::stop_token& stop) const override;

private:
  std::function<batch(const batch&)> fn_;
};

/// Base of a stage that yields elements of the upstream stage at other
/// positions.
class reindexing_stage : public wrapping_stage {
public:
  using wrapping_stage::wrapping_stage;
  batch read(const position& pos, const std::stop_token& stop) const final;
  batch stack(std::span<const position> positions,
              const std::stop_token& stop) const final;
  std::optional<std::uint64_t> rows_of(const position& pos) const final;
  batch read_rows(const position& pos, const row_range& range,
                  const std::stop_token& stop) const final;

protected:
  /// Replaces each position by the position of the same element in the upstream
  /// stage.
  virtual void map_positions(std::span<position> positions) const = 0;
};

/// Skips `first` elements and yields up to `count` after them.
class slice_stage : public reindexing_stage {
public:
  slice_stage(std::shared_ptr<const stage> upstream, std::uint64_t first,
              std::uint64_t count);
  std::optional<std::uint64_t> size() const override;

private:
  void map_positions(std::span<position> positions) const override;

  std::uint64_t first_, count_;
};

/// Concatenates epochs: epoch p yields the epochs [p * times, (p + 1) * times)
/// of the upstream stage.
class repeat_stage : public reindexing_stage {
public:
  repeat_stage(std::shared_ptr<const stage> upstream,
               std::optional<std::uint64_t> times);
  std::optional<std::uint64_t> size() const override;

private:
  void map_positions(std::span<position> positions) const override;

  std::optional<std::uint64_t> times_;
};

} // namespace troupe::data
