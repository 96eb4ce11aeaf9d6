#include "troupe/tensors/tensor.hpp"

#include "troupe/tensors/base/convert.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/convert_elements.hpp"
#include "troupe/tensors/detail/captured_operands.hpp"
#include "troupe/tensors/device_backend.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/ops/cast.hpp"
#include "troupe/tensors/ops/clone.hpp"
#include "troupe/tensors/ops/reshape.hpp"
#include "troupe/tensors/ops/slice.hpp"
#include "troupe/tensors/ops/to_device.hpp"
#include "troupe/tensors/tape.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

namespace troupe {

storage::header* storage::make_header(std::size_t bytes_behind) {
  return new (memory::allocate(
    sizeof(header) + bytes_behind,
    bytes_behind > 0 && current_context().makes_shareable_tensors)) header;
}

storage::storage(std::size_t bytes) : block_{make_header(bytes)} {
  block_->size = bytes;
  block_->data = reinterpret_cast<std::byte*>(block_ + 1);
}

/// Sets the memory of a header that has none. Releases the header if
/// `allocate` throws.
template <class F>
void storage::allocate_with(device_backend& backend, std::size_t bytes,
                            F allocate) {
  block_ = make_header(0);
  block_->backend = &backend;
  if (bytes == 0)
    return;
  try {
    block_->data = allocate();
  } catch (...) {
    memory::release(std::exchange(block_, nullptr), sizeof(header));
    throw;
  }
  block_->size = bytes;
}

// Delegates, so that the memory is released if a statement throws.
storage::storage(std::size_t bytes, const troupe::device& on) : storage{} {
  if (on.kind == device_kind::cpu) {
    *this = storage{bytes};
    return;
  }
  auto& backend = backend_of(on);
  allocate_with(backend, bytes, [&] { return backend.allocate(on, bytes); });
  block_->on = on;
  if (bytes > 0)
    captured_operands::note_allocated(block_->data, bytes, on);
}

storage storage::pinned(std::size_t bytes, device_kind kind) {
  auto* const backend = find_device_backend(kind);
  if (!backend)
    return storage{bytes};
  storage out;
  out.allocate_with(*backend, bytes,
                    [&] { return backend->allocate_pinned(bytes); });
  return out;
}

storage::storage(const storage& other) noexcept : block_{other.block_} {
  if (block_)
    block_->owners.fetch_add(1, std::memory_order_relaxed);
}

storage::~storage() {
  if (block_ && block_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1)
    release();
}

void storage::release() noexcept {
  auto* const backend = block_->backend;
  if (!backend)
    return memory::release(block_, sizeof(header) + block_->size);
  if (block_->data && block_->on.kind == device_kind::cpu)
    backend->release_pinned(block_->data, block_->size);
  else if (block_->data)
    backend->release(block_->on, block_->data, block_->size);
  memory::release(block_, sizeof(header));
}

/// Returns the size in bytes.
/// @errors throws std::bad_alloc if the size exceeds the largest difference of
///         two pointers. A valid shape can be so large: it has up to 2^62
///         elements.
static std::size_t bytes_of(const shape& dims, dtype type) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(dims.elements(), size_of(type), &bytes)
      || bytes > std::numeric_limits<std::size_t>::max() / 2)
    throw std::bad_alloc{};
  return bytes;
}

/// Names a tensor in an error text.
static std::string description_of(const tensor& x) {
  return x ? to_string(x.spec()) : std::string{"an empty tensor"};
}

/// Copies the elements of a tensor of equal spec, on any device.
static void copy_bytes(const tensor& to, const tensor& from) {
  const auto target = to.device(), source = from.device();
  if (to.bytes() == 0)
    return;
  if (target.kind == device_kind::cpu && source.kind == device_kind::cpu) {
    std::memmove(to.raw(), from.raw(), to.bytes());
  } else if (to.shares_storage_with(from)) { // the elements may overlap
    copy_bytes(to, from.detach().clone());
  } else {
    captured_operands::keep(to);
    captured_operands::keep(from);
    backend_of(target.kind == device_kind::cpu ? source : target)
      .copy(target, to.address(), source, from.address(), to.bytes());
  }
}

tensor::tensor(const shape& dims, dtype type)
  : storage_{bytes_of(dims, type)}, spec_{dims, type} {}

tensor::tensor(const tensor_spec& spec, const troupe::device& on)
  : storage_{bytes_of(spec.dims, spec.type), on}, spec_{spec} {}

tensor tensor::pinned(const tensor_spec& spec, device_kind kind) {
  tensor out;
  out.storage_ = storage::pinned(bytes_of(spec.dims, spec.type), kind);
  out.spec_ = spec;
  return out;
}

tensor tensor::zeros(const shape& dims, dtype type, const troupe::device& on) {
  tensor out{{dims, type}, on};
  out.set_zero();
  return out;
}

tensor tensor::full(const shape& dims, double value, dtype type,
                    const troupe::device& on) {
  tensor out{{dims, type}, on};
  if (on.kind != device_kind::cpu) {
    if (out.size() > 0)
      backend_of(on).fill(on, out.address(), type, value, out.size());
    return out;
  }
  const flush_denormals flushing;
  with_dtype(type, [&]<class T>(T) {
    std::ranges::fill(out.mutable_data<T>(), convert<T>(value));
  });
  return out;
}

template <class T>
tensor tensor::of(const shape& dims, std::span<const T> values) {
  if (values.size() != dims.elements())
    throw std::logic_error(std::to_string(values.size())
                           + " values for a tensor of shape "
                           + to_string(dims));
  tensor out{dims, dtype_of<T>};
  std::ranges::copy(values, out.mutable_data<T>().begin());
  return out;
}
template tensor tensor::of(const shape&, std::span<const float>);
template tensor tensor::of(const shape&, std::span<const double>);
template tensor tensor::of(const shape&, std::span<const std::int32_t>);
template tensor tensor::of(const shape&, std::span<const std::int64_t>);
template tensor tensor::of(const shape&, std::span<const std::uint8_t>);
template tensor tensor::of(const shape&, std::span<const bool>);
template tensor tensor::of(const shape&, std::span<const bfloat16>);

tensor tensor::slice(std::int64_t begin, std::int64_t end) const {
  if (dims().rank() == 0 || begin < 0 || begin > end || end > dims().front())
    throw std::logic_error("rows [" + std::to_string(begin) + ", "
                           + std::to_string(end) + ") of "
                           + description_of(*this));
  if (is_recorded(*this))
    return apply(ops::slice, {*this}, ops::slice_rows{begin, end});
  auto out = *this;
  const auto row = dims().front() ? bytes() / std::size_t(dims().front()) : 0;
  out.spec_.dims = dims().with_extent(0, end - begin);
  out.offset_ += std::size_t(begin) * row;
  out.trace_ = 0;
  return out;
}

tensor tensor::reshaped(const shape& new_dims) const {
  if (new_dims.elements() != size())
    throw std::logic_error(description_of(*this) + " cannot be reshaped to "
                           + to_string(new_dims));
  if (is_recorded(*this))
    return reshape(*this, new_dims);
  auto out = *this;
  out.spec_.dims = new_dims;
  out.trace_ = 0;
  return out;
}

tensor tensor::range(std::size_t begin, std::size_t end) const {
  return reshaped(shape{static_cast<std::int64_t>(size())})
    .slice(std::int64_t(begin), std::int64_t(end));
}

tensor tensor::clone() const {
  if (!storage_)
    return {};
  if (is_recorded(*this))
    return apply(ops::clone, {*this});
  tensor out{spec_, device()};
  copy_bytes(out, *this);
  return out;
}

tensor tensor::to(const troupe::device& target) const {
  const auto is_there = target.kind == device_kind::cpu
                          ? storage_.is_on_host()
                          : storage_ && target == device();
  if (is_there || !storage_)
    return *this;
  if (is_recorded(*this))
    return apply(ops::to_device, {*this}, ops::target_device{target});
  tensor out{spec_, target};
  copy_bytes(out, *this);
  return out;
}

void tensor::set_zero() {
  if (may_refuse_writes())
    check_writable();
  if (bytes() == 0)
    return;
  if (storage_.is_on_host()) {
    std::memset(raw(), 0, bytes());
  } else {
    captured_operands::keep(*this);
    backend_of(device()).set_zero(device(), address(), bytes());
  }
}

void tensor::copy_from(const tensor& source) {
  if (spec_ != source.spec_ || !storage_ || !source.storage_)
    throw std::logic_error("cannot copy " + description_of(source) + " into "
                           + description_of(*this));
  if (is_recorded(source))
    throw std::logic_error("copy_from() of " + to_string(source.spec_)
                           + ", which a tape records, would lose its gradient; "
                             "copy from its detach()");
  if (may_refuse_writes())
    check_writable();
  copy_bytes(*this, source);
}

tensor tensor::as(dtype target) const {
  if (target == type())
    return *this;
  if (is_recorded(*this)) {
    if (!is_float(target))
      throw std::logic_error("as(" + std::string{to_string(target)} + ") of "
                             + to_string(spec_)
                             + ", which a tape records, would lose its "
                               "gradient; convert its detach()");
    return apply(ops::cast, {*this}, ops::cast_type{target});
  }
  tensor out{{dims(), target}, device()};
  convert_elements(*this, out);
  return out;
}

void tensor::check(dtype wanted) const {
  if (wanted != type() || !storage_)
    throw std::logic_error(description_of(*this) + " read as "
                           + std::string{to_string(wanted)});
  if (!storage_.is_on_host())
    refuse_host_access();
}

void tensor::refuse_host_access() const {
  throw std::logic_error(to_string(spec_) + " is on " + to_string(device())
                         + " and cannot be read or written on the host; copy "
                           "it with to()");
}

void tensor::check_single() const {
  if (size() != 1)
    throw std::logic_error("item() needs one element, but got "
                           + description_of(*this));
}

void tensor::check_writable() const {
  if (is_read_only_)
    throw std::logic_error(
      to_string(spec_)
      + " is read-only, because it shares its elements with their owner, such "
        "as a dataset; write to its clone()");
  if (tape::holds(*this))
    throw std::logic_error(
      to_string(spec_)
      + " cannot be written while a tape needs it for gradients; write to "
        "detach().clone(), or after the gradients were computed");
}

std::string to_string(const tensor_spec& x) {
  return std::string{to_string(x.type)} + to_string(x.dims);
}

bool same_bits(const tensor& a, const tensor& b) {
  if (!a || !b)
    return !a && !b;
  if (a.spec() != b.spec() || a.bytes() == 0)
    return a.spec() == b.spec();
  const auto left = a.detach().to({}), right = b.detach().to({});
  return std::memcmp(left.raw(), right.raw(), left.bytes()) == 0;
}

} // namespace troupe
