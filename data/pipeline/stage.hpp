#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/data/pipeline/row_range.hpp"

#include <list>
#include <mutex>
#include <span>
#include <stop_token>
#include <vector>

// Stages form the chain of a dataset. A stage determines its i-th element of an
// epoch and is stateless; a cached permutation can be drawn again. Therefore a
// position is two numbers, and readers share a chain without synchronization.

namespace troupe::data {

/// Thrown by a read when its reader has requested a stop.
struct abandoned {};

/// One stage of a dataset's chain. Safe to read from several threads.
class stage {
public:
  virtual ~stage() = default;

  /// Number of elements in an epoch. None: endless.
  virtual std::optional<std::uint64_t> size() const = 0;
  /// Number of classes: labels are in [0, classes).
  virtual std::int64_t classes() const = 0;

  /// True if the order of the elements depends on the epoch.
  virtual bool varies() const = 0;

  /// Reads one element.
  /// @pre `pos.index` is below `size()`.
  /// @errors throws `read_cancelled` soon after a stop is requested, and any
  ///         exception of a user's function.
  virtual batch read(const position& at, const std::stop_token& stop) const = 0;

  /// Reads elements into one batch, along a new first axis. The default reads
  /// and copies each element.
  /// @pre `positions` is not empty.
  virtual batch stack(std::span<const position> at,
                      const std::stop_token& stop) const;

  /// Number of rows of an element that is a batch. None: only reading it would
  /// tell.
  virtual std::optional<std::uint64_t> rows_of(const position&) const {
    return std::nullopt;
  }

  /// Reads some rows of an element that is a batch. The default reads all rows.
  virtual batch read_rows(const position& at, const share& which,
                          const std::stop_token& stop) const;
};

/// Rejects an element that a tape records: copying it would lose its gradient.
/// @param source Start of the error message: where the element comes from.
/// @errors throws std::logic_error.
void check_unrecorded(const batch& x, const char* what);

/// Number of rows of an element. Zero: a single example.
std::int64_t row_count(const batch& x);

/// Yields the rows of two tensors.
class rows : public stage {
public:
  rows(tensor inputs, tensor labels, std::int64_t classes);

  std::optional<std::uint64_t> size() const override;
  std::int64_t classes() const override { return classes_; }
  bool varies() const override { return false; }
  batch read(const position& at, const std::stop_token&) const override;
  batch stack(std::span<const position> at,
              const std::stop_token&) const override;

protected:
  const tensor& inputs() const { return inputs_; }
  const tensor& labels() const { return labels_; }

private:
  tensor inputs_, labels_;
  std::int64_t classes_;
};

/// Yields rows of bytes as float32 in [0, 1].
class pixels : public rows {
public:
  using rows::rows;
  batch read(const position& at, const std::stop_token&) const override;
  batch stack(std::span<const position> at,
              const std::stop_token&) const override;
};

/// Yields the elements that a function makes of their indices.
class made : public stage {
public:
  made(std::uint64_t size, std::int64_t classes,
       std::function<batch(std::uint64_t)> fn);

  std::optional<std::uint64_t> size() const override { return size_; }
  std::int64_t classes() const override { return classes_; }
  bool varies() const override { return false; }
  batch read(const position& at, const std::stop_token&) const override;

private:
  std::uint64_t size_;
  std::int64_t classes_;
  std::function<batch(std::uint64_t)> fn_;
};

/// Base of a stage that reads another stage. Without overrides it changes
/// nothing.
class link : public stage {
public:
  explicit link(std::shared_ptr<const stage> on) : on_{std::move(on)} {}

  std::optional<std::uint64_t> size() const override { return on_->size(); }
  std::int64_t classes() const override { return on_->classes(); }
  bool varies() const override { return on_->varies(); }

protected:
  const stage& on() const { return *on_; }

private:
  std::shared_ptr<const stage> on_;
};

/// Applies a function to each element.
class mapped : public link {
public:
  mapped(std::shared_ptr<const stage> on,
         std::function<batch(const batch&)> fn);
  batch read(const position& at, const std::stop_token& stop) const override;

private:
  std::function<batch(const batch&)> fn_;
};

/// Groups `count` consecutive elements into a batch.
class batched : public link {
public:
  batched(std::shared_ptr<const stage> on, std::uint64_t count, bool drop);
  std::optional<std::uint64_t> size() const override;
  batch read(const position& at, const std::stop_token& stop) const override;
  std::optional<std::uint64_t> rows_of(const position& at) const override;
  batch read_rows(const position& at, const share& which,
                  const std::stop_token& stop) const override;

private:
  std::uint64_t count_;
  bool drop_;
};

/// Keeps of each batch the rows of shards [first, last) of `shards`.
class partial : public link {
public:
  partial(std::shared_ptr<const stage> on, std::uint32_t first,
          std::uint32_t last, std::uint32_t parts);
  batch read(const position& at, const std::stop_token& stop) const override;

private:
  std::uint32_t first_, last_, parts_;
};

/// Base of a stage that yields elements of another stage in another order.
class moved : public link {
public:
  using link::link;
  batch read(const position& at, const std::stop_token& stop) const final;
  batch stack(std::span<const position> at,
              const std::stop_token& stop) const final;
  std::optional<std::uint64_t> rows_of(const position& at) const final;
  batch read_rows(const position& at, const share& which,
                  const std::stop_token& stop) const final;

protected:
  /// Replaces each position by that of the element in the stage below.
  virtual void trace(std::span<position> at) const = 0;
};

/// Skips `first` elements and yields up to `count` after them.
class window : public moved {
public:
  window(std::shared_ptr<const stage> on, std::uint64_t first,
         std::uint64_t count);
  std::optional<std::uint64_t> size() const override;

private:
  void trace(std::span<position> at) const override;

  std::uint64_t first_, count_;
};

/// Concatenates epochs: epoch p yields the epochs [p * times, (p + 1) * times)
/// of the stage below.
class repeated : public moved {
public:
  repeated(std::shared_ptr<const stage> on, std::optional<std::uint64_t> times);
  std::optional<std::uint64_t> size() const override;

private:
  void trace(std::span<position> at) const override;

  std::optional<std::uint64_t> times_;
};

/// Permutes blocks of elements, in an order drawn from (seed, epoch, block).
class shuffled : public moved {
public:
  shuffled(std::shared_ptr<const stage> on, std::uint64_t block,
           std::uint64_t seed, bool each_pass);
  bool varies() const override { return each_pass_ || on().varies(); }

private:
  using order = std::vector<std::uint32_t>;
  struct drawn {
    std::uint64_t pass, block;
    std::shared_ptr<const order> is;
  };

  void trace(std::span<position> at) const override;
  std::shared_ptr<const order> order_of(std::uint64_t pass,
                                        std::uint64_t block) const;

  std::uint64_t block_, seed_;
  bool each_pass_;
  mutable std::mutex lock_;
  mutable std::list<drawn> drawn_; ///< Most recently used first.
};

} // namespace troupe::data
