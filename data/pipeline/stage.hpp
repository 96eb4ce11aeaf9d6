#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/data/pipeline/row_range.hpp"

#include <list>
#include <mutex>
#include <span>
#include <stop_token>
#include <vector>

// What chains are made of. A stage says what its i-th element in a pass is, and
// remembers nothing (but permutations, which it could draw again): so a
// position is two numbers, and readers share a chain without knowing of each
// other.

namespace troupe::data {

/// Thrown out of a read when nobody waits for it any more.
struct abandoned {};

class stage {
public:
  virtual ~stage() = default;

  virtual std::optional<std::uint64_t> size() const = 0;
  virtual std::int64_t classes() const = 0;

  /// Whether an element's place depends on the pass.
  virtual bool varies() const = 0;

  /// One element. @pre `at.index` is below `size()`.
  /// @errors throws `abandoned` soon after a stop is requested, and what a
  ///         user's function throws.
  virtual batch read(const position& at, const std::stop_token& stop) const = 0;

  /// These elements side by side along a new first axis. Here: reads and copies
  /// each. @pre `at` is not empty.
  virtual batch stack(std::span<const position> at,
                      const std::stop_token& stop) const;

  /// How many rows an element has that is a batch; none if only reading it
  /// would tell.
  virtual std::optional<std::uint64_t> rows_of(const position&) const {
    return std::nullopt;
  }

  /// Some rows of an element that is a batch. Here: reads all of it.
  virtual batch read_rows(const position& at, const share& which,
                          const std::stop_token& stop) const;
};

/// Refuses an element that a tape records: it is copied without its gradient.
/// @param what who gave the element.
/// @errors throws std::logic_error.
void check_unrecorded(const batch& x, const char* what);

/// Rows of an element; zero for a single example.
std::int64_t row_count(const batch& x);

/// Rows of two tensors.
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

/// Rows of bytes, read as float32 in [0, 1].
class pixels : public rows {
public:
  using rows::rows;
  batch read(const position& at, const std::stop_token&) const override;
  batch stack(std::span<const position> at,
              const std::stop_token&) const override;
};

/// What a function makes of an index.
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

/// A stage on top of another; by itself it changes nothing.
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

class mapped : public link {
public:
  mapped(std::shared_ptr<const stage> on,
         std::function<batch(const batch&)> fn);
  batch read(const position& at, const std::stop_token& stop) const override;

private:
  std::function<batch(const batch&)> fn_;
};

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

/// Of each batch the rows of parts [first, last) of `parts`.
class partial : public link {
public:
  partial(std::shared_ptr<const stage> on, std::uint32_t first,
          std::uint32_t last, std::uint32_t parts);
  batch read(const position& at, const std::stop_token& stop) const override;

private:
  std::uint32_t first_, last_, parts_;
};

/// Elements of another stage in other places.
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
  /// Replaces each place by the one below that its element comes from.
  virtual void trace(std::span<position> at) const = 0;
};

/// `count` elements after the first `first`.
class window : public moved {
public:
  window(std::shared_ptr<const stage> on, std::uint64_t first,
         std::uint64_t count);
  std::optional<std::uint64_t> size() const override;

private:
  void trace(std::span<position> at) const override;

  std::uint64_t first_, count_;
};

/// One pass after the other: pass p here holds the passes from p * times on.
class repeated : public moved {
public:
  repeated(std::shared_ptr<const stage> on, std::optional<std::uint64_t> times);
  std::optional<std::uint64_t> size() const override;

private:
  void trace(std::span<position> at) const override;

  std::optional<std::uint64_t> times_;
};

/// Blocks of elements, each in an order drawn from (seed, pass, block).
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
  mutable std::list<drawn> drawn_; ///< The latest first.
};

} // namespace troupe::data
