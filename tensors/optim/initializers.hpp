#pragma once

#include "troupe/tensors/base/hyperparameters.hpp"
#include "troupe/tensors/base/shape.hpp"
#include "troupe/tensors/context.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// Fan-in and fan-out of a parameter. Fan-in is the number of inputs that one
/// output depends on. Fan-out is the number of outputs that depend on one
/// input. The shape is [in, out] for a dense layer, and [kh, kw, in, out] for a
/// convolution. There may be any number of window axes (here kh, kw). For a
/// vector, both are its length; for a scalar, both are 1.
struct fans {
  double in = 1, out = 1;
};
fans fans_of(const shape& dims);

/// Sets a parameter's values before training. These are the names, with their
/// hyperparameters and default values:
///
///   zeros, ones
///   constant        value (0)
///   uniform         low (-0.05), high (0.05)
///   normal          mean (0), deviation (0.05)
///   glorot_uniform  in +-sqrt(6 / (fan in + fan out))
///   glorot_normal   mean 0, deviation sqrt(2 / (fan in + fan out))
///   he_uniform      in +-sqrt(6 / fan in)
///   he_normal       mean 0, deviation sqrt(2 / fan in)
///
/// The normal distributions are not truncated, unlike TensorFlow's.
/// @source Glorot & Bengio, AISTATS 2010; He et al., ICCV 2015.
class initializer {
public:
  /// @errors throws std::invalid_argument for an unknown initializer or
  ///         hyperparameter name, and lists the known names. Throws
  ///         std::invalid_argument for an invalid value, with the valid range.
  explicit initializer(std::string_view name,
                       std::span<const hyperparameter> numbers = {});

  const std::string& name() const { return name_; }
  hyperparameters numbers() const;

  /// Fills a parameter of shape `dims`.
  /// @errors throws std::logic_error if `out` has another number of elements.
  void fill(std::span<float> out, const shape& dims,
            const random_key& key) const;

  /// Fills elements [first, first + out.size()) of a parameter of shape `dims`
  /// with the bits that `fill` gives them.
  /// @errors throws std::logic_error if the parameter has no such elements.
  void fill_range(std::span<float> out, const shape& dims,
                  const random_key& key, std::uint64_t first) const;

private:
  std::string name_;
  std::size_t kind_ = 0;
  float first_ = 0, second_ = 0;
};

/// Names of all initializers, in the order of the comment of `initializer`.
const std::vector<std::string>& initializer_names();

/// Returns the key of the random numbers for parameter `index` of a model.
random_key initial_key(std::uint64_t seed, std::uint32_t index);

} // namespace troupe
