#pragma once

#include "troupe/data/pipeline/dataset.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// What identifies the data of a batched dataset without reading all of it.
/// Datasets with other identities have other examples, another order or other
/// batches. Datasets with equal identities can still differ in batches between
/// the first and the last one.
struct data_identity {
  /// Batches of an epoch. None: the epoch is endless.
  std::optional<std::uint64_t> batches;
  /// Examples of an epoch. None: their number is unknown until they are read.
  std::optional<std::uint64_t> examples;
  std::string first_batch; ///< Hash of the first batch of epoch 0.
  std::string last_batch;  ///< Hash of its last batch. Empty: there is none.

  friend bool operator==(const data_identity&, const data_identity&) = default;
};

/// @cost reads two batches, and computes their SHA-256.
data_identity identify(const data::dataset& batches);

/// Describes an identity, one "name: value" a line.
/// @param of ends each name, such as " of the validation data".
std::string describe(const data_identity& x, std::string_view of = {});

/// Returns the number of examples and the hash of the batch at a position. The
/// hash is the SHA-256 of the names, the types and the elements of its tensors.
/// "none": the dataset ends before it. A batch that cannot be read has the
/// error as its hash (`is_unreadable`); reading the batch later throws the
/// error itself.
std::string hash_of_batch(const data::dataset& batches,
                          const data::position& at);

/// True if the result of `hash_of_batch` says that the batch cannot be read.
bool is_unreadable(const std::string& hash);

} // namespace troupe
