#pragma once

#include "troupe/tensors/context.hpp"
#include "troupe/tensors/hyperparameters.hpp"
#include "troupe/tensors/shape.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// How many inputs one output of a parameter sees, and the other way round:
/// dense [in, out], convolution [kh, kw, in, out] (any number of window axes);
/// of a vector both are its length, of a scalar 1.
struct fans {
  double in = 1, out = 1;
};
fans fans_of(const shape& dims);

/// What fills a parameter before training, by name and numbers:
///
///   zeros, ones
///   constant        value (0)
///   uniform         low (-0.05), high (0.05)
///   normal          mean (0), deviation (0.05)
///   glorot_uniform  +-sqrt(6 / (fan in + fan out))
///   glorot_normal   deviation sqrt(2 / (fan in + fan out))
///   he_uniform      +-sqrt(6 / fan in)
///   he_normal       deviation sqrt(2 / fan in)
///
/// The normal ones are not truncated (TensorFlow's are).
/// @source Glorot & Bengio, AISTATS 2010; He et al., ICCV 2015.
class initializer {
public:
  /// @errors throws std::invalid_argument with a sentence that lists the names
  ///         that there are, of initializers or of this one's numbers, or says
  ///         which value would do.
  explicit initializer(std::string_view name,
                       std::span<const named_number> numbers = {});

  const std::string& name() const { return name_; }
  named_numbers numbers() const;

  /// Fills a parameter of these extents.
  /// @errors throws std::logic_error if `out` has another size.
  void fill(std::span<float> out, const shape& dims,
            const random_key& key) const;

private:
  std::string name_;
  std::size_t kind_ = 0;
  float first_ = 0, second_ = 0;
};

/// What `initializer` knows, in the order of its comment.
const std::vector<std::string>& initializer_names();

/// The key for parameter `index` of a model.
random_key initial_key(std::uint64_t seed, std::uint32_t index);

} // namespace troupe
