#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Name and shape of a parameter, before it exists.
struct parameter_spec {
  std::string name;
  shape dims;
};

namespace detail {
struct parameter_block;
}

/// A parameter of a model: one copy per replica, all with the same bits between
/// steps. A handle; the code that runs on a replica sees that replica's copy.
class variable {
public:
  variable() = default;
  variable(std::shared_ptr<detail::parameter_block> block, std::size_t index);

  const std::string& name() const;
  const shape& dims() const;

  /// [dims] float32, this replica's copy; a tape knows it as this variable.
  tensor value() const;

  /// [dims] float32, where a tape leaves this replica's gradient.
  tensor gradient() const;

  /// As those of the `parameters` that it is one of.
  std::uint32_t copies() const;
  std::uint32_t replicas() const;

  /// Unique in the process; never 0.
  std::uint32_t id() const;

private:
  std::shared_ptr<detail::parameter_block> block_;
  std::size_t index_ = 0;
};

/// All parameters of a model: per copy one flat float32 buffer of values, per
/// replica one of gradients, both in one layout. Each parameter starts at a
/// multiple of 16 elements; the gaps hold zeros.
class parameters {
public:
  parameters() = default;

  /// @param copies   copies of the values: 1 if replicas take turns on one
  ///                 device, else one per replica.
  /// @param replicas gradient buffers.
  parameters(std::vector<parameter_spec> specs, std::uint32_t copies = 1,
             std::uint32_t replicas = 1);

  const std::vector<variable>& variables() const { return variables_; }
  std::uint32_t copies() const;
  std::uint32_t replicas() const;

  std::size_t size() const;  ///< Elements of a flat buffer, gaps included.
  std::size_t count() const; ///< Elements of all parameters, gaps excluded.

  tensor values(std::uint32_t copy = 0) const;       ///< [size] float32
  tensor gradients(std::uint32_t replica = 0) const; ///< [size] float32

  /// Where parameter `index` starts in a flat buffer, in elements.
  std::size_t offset(std::size_t index) const;

private:
  std::shared_ptr<detail::parameter_block> block_;
  std::vector<variable> variables_;
};

} // namespace troupe
