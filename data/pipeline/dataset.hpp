#pragma once

#include "troupe/data/pipeline/cursor.hpp"

#include <functional>
#include <string>
#include <vector>

namespace troupe::data {

/// Block size for `shuffle`: all elements form one block.
inline constexpr auto whole_dataset = ~std::uint64_t{0};

/// Default timeout of `cursor::next` while it waits for a prefetched element.
inline constexpr std::chrono::milliseconds default_element_timeout{60'000};

/// Name, shape and dtype of a tensor of an element.
struct named_spec {
  std::string name;
  tensor_spec spec;

  friend bool operator==(const named_spec&, const named_spec&) = default;
};

/// A chain of stages that yields elements: examples, or batches after `batch`.
/// A dataset is an immutable handle: copies are cheap, and each method returns
/// a longer chain. Safe to read from several threads.
///
///   auto [train, test] = digits({.examples = 10'000, .seed = 1}).split(0.8);
///   for (auto& x : train.shuffle().batch(64).prefetch(2).iterate())
///     step(x.inputs, x.labels);
class dataset {
public:
  /// Makes a dataset from the rows of two tensors. Their memory is shared, not
  /// copied. Labels of shape [n] and dtype int32 are class numbers. Other
  /// labels are values for a regression.
  /// @shape inputs [n, ...] and labels [n, ...], of any dtype. Empty labels:
  ///        none.
  /// @param classes Class numbers are in [0, classes). Zero: the maximum label
  ///        + 1.
  /// @errors throws std::invalid_argument if the numbers of rows differ, or a
  ///         label is out of range.
  dataset(tensor inputs, tensor labels, std::int64_t classes = 0);

  /// Makes a dataset from the rows of any number of named tensors. Their memory
  /// is shared, not copied.
  /// @shape each tensor [n, ...]
  /// @param classes Number of classes of the labels, which are then int32[n].
  ///        Zero: the labels are no class numbers.
  /// @errors throws std::invalid_argument if the numbers of rows differ, or a
  ///         label is out of range. Throws std::invalid_argument if two tensors
  ///         of `others` have the same name, or one is named "inputs" or
  ///         "labels".
  static dataset of(troupe::batch rows, std::int64_t classes = 0);

  /// Makes a dataset of images from bytes, which are read as float32 in [0, 1].
  /// The dataset takes a quarter of the memory of float32 images.
  /// @shape pixels uint8 [n, ...], labels [n] int32.
  /// @param classes Labels are in [0, classes). Zero: the maximum label + 1.
  static dataset of_pixels(tensor pixels, tensor labels,
                           std::int64_t classes = 0);

  /// Makes a dataset of `size` elements, where element i is `fn(i)`: for data
  /// that is read or generated on demand. `fn` must return the same element for
  /// the same i, and may be called on any thread.
  /// @param classes Labels are in [0, classes). Zero: the labels are no class
  ///        numbers; `fn` then sets `global_rows` if its elements are batches.
  dataset(std::uint64_t size, std::int64_t classes,
          std::function<troupe::batch(std::uint64_t)> fn);

  /// Applies `fn` to each element: to each example if `map` is called before
  /// `batch`, to each batch if it is called after `batch`. `fn` is called each
  /// time an element is read, possibly on another thread. It must return the
  /// same result for the same element.
  dataset map(std::function<troupe::batch(const troupe::batch&)> fn) const;

  /// Permutes the elements within each block of `block` elements. By default
  /// all elements are one block. The permutation is drawn from (seed, epoch,
  /// block). If `each_epoch` is false, every epoch has the order of epoch 0.
  /// @cost 4 bytes for each element of the 4 blocks that were read last;
  ///       elements are not copied.
  dataset shuffle(std::uint64_t block = whole_dataset, std::uint64_t seed = 0,
                  bool each_epoch = true) const;

  /// Groups `count` consecutive elements into a batch of shape [count, ...].
  /// The last batch of an epoch holds the remaining elements, unless
  /// `drop_remainder` is true.
  /// @cost one copy of the elements; none if they are adjacent in memory.
  dataset batch(std::uint64_t count, bool drop_remainder = false) const;

  /// Concatenates `times` epochs into one. None: the epoch is endless.
  dataset repeat(std::optional<std::uint64_t> times = std::nullopt) const;

  /// Keeps the first `count` elements. Keeps all elements if there are fewer.
  dataset take(std::uint64_t count) const;

  /// Removes the first `count` elements.
  dataset skip(std::uint64_t count) const;

  /// Cuts each batch into `shards` shards as `shard_of` does, and keeps only
  /// the rows of shards [first, last). The result may be an empty batch.
  /// @pre elements are batches.
  /// @cost rows of other shards are not read, unless a `map` follows `batch`.
  dataset shard(std::uint32_t first, std::uint32_t last,
                std::uint32_t shards) const;

  /// Cuts each batch into one shard for each share, and keeps only the rows of
  /// shards [first, last). A shard's number of rows is proportional to its
  /// share, rounded to a whole number as `shard_of` does.
  /// @pre elements are batches.
  /// @errors throws std::invalid_argument for a share outside [1, 1'000'000].
  dataset shard_by_shares(std::uint32_t first, std::uint32_t last,
                          std::vector<std::uint32_t> shares) const;

  /// Makes each cursor read up to `count` elements in advance, on a thread of
  /// its own. Zero: no prefetching. The elements are those of the complete
  /// chain, including stages that are added after this call.
  /// @param element_timeout Timeout of `cursor::next`. None: the timeout from
  ///        an earlier call of `prefetch`, or else `default_element_timeout`.
  dataset prefetch(std::size_t count,
                   std::optional<std::chrono::milliseconds> element_timeout =
                     std::nullopt) const;

  /// Returns the `count` of the last call of `prefetch`. None: it was not
  /// called.
  std::optional<std::size_t> prefetched() const { return prefetch_count_; }

  /// Timeout of `cursor::next`.
  std::chrono::milliseconds element_timeout() const { return element_timeout_; }

  struct train_test;
  /// Splits into the first `fraction` of the elements, rounded to the nearest
  /// count, and the rest.
  /// @errors throws std::invalid_argument unless 0 < fraction < 1. Throws
  ///         std::invalid_argument for an endless dataset, and after a shuffle
  ///         that differs per epoch: test elements of one epoch would be
  ///         training elements of another.
  train_test split(double fraction) const;

  /// Number of elements in an epoch: examples or batches. None: the epoch is
  /// endless.
  std::optional<std::uint64_t> size() const;

  /// Number of classes: labels are in [0, classes). Zero: the labels are no
  /// class numbers, or there are none.
  std::int64_t classes() const;

  /// Shape and dtype of the first element's inputs. @cost reads the first
  /// element.
  /// @errors throws std::invalid_argument if there is no element.
  tensor_spec element() const;

  /// Names, shapes and dtypes of the first element's tensors, in order. Every
  /// element has these names and dtypes.
  /// @cost and @errors as `element`.
  std::vector<named_spec> spec() const;

  /// Number of rows of the batch at a position. None: it is unknown until the
  /// batch is read.
  std::optional<std::uint64_t> batch_rows(const position& pos) const;

  /// Returns elements [begin, end) of the first epoch, along a new first axis.
  /// @cost one copy of the elements; none if they are adjacent in memory.
  /// @errors throws std::invalid_argument for an empty range, or one beyond the
  ///         end.
  troupe::batch examples(std::uint64_t begin, std::uint64_t end) const;

  /// Returns a cursor that starts at a position.
  /// @errors throws std::invalid_argument for a position beyond the end.
  cursor iterate(const position& start = {}) const;

private:
  dataset() = default;
  dataset append_stage(std::shared_ptr<const stage> last) const;
  troupe::batch first_element() const;

  std::shared_ptr<const stage> last_;
  /// None: `prefetch` was not called.
  std::optional<std::size_t> prefetch_count_;
  std::chrono::milliseconds element_timeout_{default_element_timeout};
};

struct dataset::train_test {
  dataset train, test;
};

} // namespace troupe::data
