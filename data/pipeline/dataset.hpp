#pragma once

#include "troupe/data/pipeline/cursor.hpp"

#include <functional>

namespace troupe::data {

/// For `shuffle`: as one block, however many elements there are.
inline constexpr auto whole = ~std::uint64_t{0};

inline constexpr std::chrono::milliseconds usual_patience{60'000};

/// A chain of steps that ends in elements: examples at first, batches after
/// `batch`. A handle: copies are cheap, and a chain never changes; every method
/// makes a longer one. Safe to read from several threads.
///
///   auto [train, test] = digits({.examples = 10'000, .seed = 1}).split(0.8);
///   for (auto& x : train.shuffle().batch(64).prefetch(2).iterate())
///     step(x.inputs, x.labels);
class dataset {
public:
  /// @shape inputs [n, ...] of any dtype, labels [n] int32; shared, not copied.
  /// @param classes labels lie in [0, classes); 0: the largest label + 1.
  /// @errors throws std::invalid_argument if the two do not fit each other or a
  ///         label is out of range.
  dataset(tensor inputs, tensor labels, std::int64_t classes = 0);

  /// Images of bytes, read as float32 in [0, 1]: a quarter of the memory.
  /// @shape pixels uint8 [n, ...]; else as above.
  static dataset of_pixels(tensor pixels, tensor labels,
                           std::int64_t classes = 0);

  /// `size` elements, the i-th of which is `fn(i)`: for data that is read or
  /// made when it is needed. `fn` must return the same for the same i.
  dataset(std::uint64_t size, std::int64_t classes,
          std::function<troupe::batch(std::uint64_t)> fn);

  /// `fn` of each element: of an example before `batch`, of a batch after it.
  /// It is called each time an element is read, perhaps on another thread, and
  /// must return the same for the same element.
  dataset map(std::function<troupe::batch(const troupe::batch&)> fn) const;

  /// In an order of its own in every pass, drawn from (seed, pass): as a whole,
  /// or each `block` elements among themselves. With `each_pass` false, in one
  /// order for good.
  /// @cost 4 bytes an element for each of the last passes read; no element
  /// moves.
  dataset shuffle(std::uint64_t block = whole, std::uint64_t seed = 0,
                  bool each_pass = true) const;

  /// `count` elements at a time, side by side: [count, ...]. The last batch of
  /// a pass holds what is left, unless `drop_remainder`.
  /// @cost one copy of the elements, none where they lie side by side already.
  dataset batch(std::uint64_t count, bool drop_remainder = false) const;

  /// One pass after the other as one long pass; for ever without a number.
  dataset repeat(std::optional<std::uint64_t> times = std::nullopt) const;

  dataset take(std::uint64_t count) const; ///< The first `count`, or all.
  dataset skip(std::uint64_t count) const; ///< All but the first `count`.

  /// Of each batch only the rows of parts [first, last) of those that
  /// `share_of` cuts it into, maybe none. @pre elements are batches.
  /// @cost other rows are not read, unless a `map` came after `batch`.
  dataset part(std::uint32_t first, std::uint32_t last,
               std::uint32_t parts) const;

  /// Cursors keep `count` elements of the finished chain ready, read by a
  /// thread of their own; 0: none. Where in the chain this stands makes no
  /// difference.
  /// @param patience longest wait for an element before `next` throws; none:
  ///        what was given before, or else `usual_patience`.
  dataset prefetch(
    std::size_t count,
    std::optional<std::chrono::milliseconds> patience = std::nullopt) const;

  /// What `prefetch` was given; none if it was not called.
  std::optional<std::size_t> prefetched() const { return ahead_; }

  struct parts;
  /// The first `fraction` of the elements (to the nearest), and the rest.
  /// @errors throws std::invalid_argument unless 0 < fraction < 1, for an
  ///         endless chain, and after a shuffle that differs from pass to pass:
  ///         what is held back in one would be seen in the next.
  parts split(double fraction) const;

  /// Elements in a pass: examples or batches; none if there is no end.
  std::optional<std::uint64_t> size() const;

  /// Number of classes that labels are drawn from.
  std::int64_t classes() const;

  /// Shape and dtype of the first element's inputs. @cost reads that element.
  /// @errors throws std::invalid_argument if there is no element.
  tensor_spec element() const;

  /// Rows of the batch at a position; none if only reading it would tell.
  std::optional<std::uint64_t> batch_rows(const position& at) const;

  /// Elements [begin, end) of the first pass side by side. @cost as `batch`.
  troupe::batch examples(std::uint64_t begin, std::uint64_t end) const;

  /// @errors throws std::invalid_argument for a position beyond the end.
  cursor iterate(const position& from = {}) const;

private:
  dataset() = default;
  dataset with(std::shared_ptr<const stage> last) const;

  std::shared_ptr<const stage> last_;
  std::optional<std::size_t> ahead_; ///< None: nobody said.
  std::chrono::milliseconds patience_{usual_patience};
};

struct dataset::parts {
  dataset train, test;
};

} // namespace troupe::data
