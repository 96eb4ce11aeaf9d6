#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Name and shape of a parameter.
struct parameter_spec {
  std::string name;
  shape dims;
  /// True: a step reads few rows of it, so `fit` computes a sparse gradient and
  /// updates these rows only.
  bool is_table = false;
};

namespace detail {
struct parameter_block;
}

/// A parameter of a model. In a job of one process, all replicas share one copy
/// of the parameter's value; otherwise each replica has a copy. Between steps,
/// all copies have the same bits. A variable is a handle: code that runs on a
/// replica reads the copy of that replica.
class variable {
public:
  variable() = default;
  variable(std::shared_ptr<detail::parameter_block> block, std::size_t index);

  const std::string& name() const;
  const shape& dims() const;

  /// Returns this replica's copy of the value, [dims] float32. A tape adds the
  /// gradients of all tensors that this function returns to the gradient of
  /// this variable.
  tensor value() const;

  /// Returns the device of this replica's copy.
  troupe::device device() const;

  /// Returns the buffer for this replica's gradient, [dims] float32.
  tensor gradient() const;

  /// Returns the number of copies of the value.
  std::uint32_t copies() const;
  /// Returns the number of gradient buffers: one for each replica.
  std::uint32_t replicas() const;

  /// Unique in the process; never 0.
  std::uint32_t id() const;

private:
  std::shared_ptr<detail::parameter_block> block_;
  std::size_t index_ = 0;
};

/// All parameters of a model. Each copy has one flat float32 buffer of values,
/// and each replica has one of gradients, with the same layout. Each parameter
/// starts at a multiple of 16 elements; the gaps hold zeros. Nothing is written
/// to the gradient of a table before its first dense gradient, so until then
/// its pages need no memory.
class parameters {
public:
  parameters() = default;

  /// @param copies Number of copies of the values: 1 if the replicas share the
  ///        values, else one per replica.
  /// @param replicas Number of gradient buffers.
  /// @param devices of copies and gradients, in turn. Empty: the CPU.
  /// @errors throws std::logic_error if replicas on different devices share one
  ///         copy.
  parameters(std::vector<parameter_spec> specs, std::uint32_t copies = 1,
             std::uint32_t replicas = 1, std::vector<device> devices = {});

  /// Adds copies of the values, equal to the first one, and gradient buffers,
  /// until there are at least so many.
  /// @param allocate returns a tensor with uninitialized elements on a device.
  /// @pre no other thread uses the parameters.
  void grow(std::uint32_t copies, std::uint32_t replicas,
            tensor (*allocate)(const shape& dims,
                               const device& on) = allocate_tensor);

  /// Makes a tensor the memory of the values, without a copy. Tensors that
  /// `values` or a variable has returned before keep the former memory.
  /// @param flat [size()] float32 on the CPU.
  /// @errors throws std::invalid_argument for another tensor, and
  ///         std::logic_error if there are several copies.
  void use_values(tensor flat);

  const std::vector<variable>& variables() const { return variables_; }
  std::uint32_t copies() const;
  std::uint32_t replicas() const;

  std::size_t size() const; ///< Number of elements of a flat buffer, with gaps.
  std::size_t count() const; ///< Number of elements without gaps.

  tensor values(std::uint32_t copy = 0) const;       ///< [size] float32
  tensor gradients(std::uint32_t replica = 0) const; ///< [size] float32

  /// Index of the first element of parameter `index` in a flat buffer.
  std::size_t offset(std::size_t index) const;

private:
  std::vector<tensor> views_of(const tensor& flat) const;
  static tensor allocate_tensor(const shape& dims, const device& on);

  std::shared_ptr<detail::parameter_block> block_;
  std::vector<variable> variables_;
};

} // namespace troupe
