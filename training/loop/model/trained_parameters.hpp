#pragma once

#include "troupe/training/loop/model/claimed_slices.hpp"
#include "troupe/training/loop/model/model_state.hpp"
#include "troupe/training/loop/options/fit_options.hpp"

#include <cstddef>
#include <vector>

namespace troupe {

/// What a fit changes of a model. A parameter is dense, if its whole gradient
/// is computed, a table, of which the rows that occur are updated, or frozen.
/// Parameters have the numbers of `model_state::variables`.
class trained_parameters {
public:
  /// @errors throws std::invalid_argument if `trainable` selects no variable,
  ///         and for a model with tables in a job of several processes or on a
  ///         device.
  trained_parameters(const model_state& model, const fit_options& options);

  const std::vector<std::size_t>& dense() const { return dense_; }
  const std::vector<std::size_t>& tables() const { return tables_; }
  /// The others.
  const std::vector<std::size_t>& frozen() const { return frozen_; }

  /// Ranges of the flat buffers that the dense parameters have in
  /// [begin, end).
  std::vector<element_range> dense_ranges(std::size_t begin,
                                          std::size_t end) const {
    return ranges_of(dense_, begin, end);
  }
  std::vector<element_range> dense_ranges() const {
    return dense_ranges(0, model_.model_parameters.size());
  }
  /// Ranges of the flat buffers that the frozen parameters have.
  std::vector<element_range> frozen_ranges() const {
    return ranges_of(frozen_, 0, model_.model_parameters.size());
  }

private:
  std::vector<element_range> ranges_of(const std::vector<std::size_t>& numbers,
                                       std::size_t begin,
                                       std::size_t end) const;

  const model_state& model_;
  std::vector<std::size_t> dense_, tables_, frozen_; ///< Ascending.
};

} // namespace troupe
