#include "troupe/tensors/variable.hpp"

#include "troupe/tensors/base/tape_ids.hpp"
#include "troupe/tensors/context.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace detail {

struct parameter_block {
  std::vector<parameter_spec> specs;
  /// Offset of each parameter in a flat buffer, and last the buffer's size.
  std::vector<std::size_t> offsets;
  std::vector<tensor> flat_values, flat_gradients;
  /// Views of the flat buffers. The first index is the copy for `values`, and
  /// the replica for `gradients`. The second index is the parameter.
  std::vector<std::vector<tensor>> values, gradients;
  std::uint32_t first_id = 0;
  std::vector<device> devices; ///< Empty: the CPU.

  device device_of(std::size_t replica) const {
    return devices.empty() ? device{} : devices[replica % devices.size()];
  }
};

} // namespace detail

namespace {

constexpr std::size_t granule = memory::alignment / sizeof(float);

std::atomic<std::uint32_t> next_id{1};

const tensor& copy_of(const std::vector<std::vector<tensor>>& copies,
                      std::size_t index) {
  const std::size_t replica =
    copies.size() == 1 ? 0 : current_context().copy_index;
  if (replica >= copies.size())
    throw std::logic_error("replica " + std::to_string(replica)
                           + " reads a variable that has "
                           + std::to_string(copies.size())
                           + " copies; was it made in this strategy's scope?");
  return copies[replica][index];
}

/// Sets the elements of a flat buffer to zero.
/// @param with_tables False: except those of tables.
void set_zero(const detail::parameter_block& block, const tensor& flat,
              bool with_tables) {
  std::size_t begin = 0; // of the parameters since the last table
  for (std::size_t i = 0; i < block.specs.size(); ++i)
    if (!with_tables && block.specs[i].is_table) {
      flat.range(begin, block.offsets[i]).set_zero();
      begin = block.offsets[i + 1];
    }
  flat.range(begin, block.offsets.back()).set_zero();
}

} // namespace

variable::variable(std::shared_ptr<detail::parameter_block> block,
                   std::size_t index)
  : block_{std::move(block)}, index_{index} {}

const std::string& variable::name() const {
  return block_->specs[index_].name;
}

const shape& variable::dims() const {
  return block_->specs[index_].dims;
}

tensor variable::value() const {
  return copy_of(block_->values, index_)
    .with_trace(tape_ids::of_variable(id()));
}

device variable::device() const {
  return copy_of(block_->values, index_).device();
}

tensor variable::gradient() const {
  return copy_of(block_->gradients, index_);
}

std::uint32_t variable::copies() const {
  return static_cast<std::uint32_t>(block_->values.size());
}

std::uint32_t variable::replicas() const {
  return static_cast<std::uint32_t>(block_->gradients.size());
}

std::uint32_t variable::id() const {
  return block_->first_id + static_cast<std::uint32_t>(index_);
}

parameters::parameters(std::vector<parameter_spec> specs, std::uint32_t copies,
                       std::uint32_t replicas, std::vector<device> devices)
  : block_{std::make_shared<detail::parameter_block>()} {
  if (copies == 0 || replicas == 0)
    throw std::logic_error("parameters without a copy or a replica");
  block_->specs = std::move(specs);
  block_->devices = std::move(devices);
  block_->first_id =
    next_id.fetch_add(static_cast<std::uint32_t>(block_->specs.size()));
  block_->offsets.push_back(0);
  for (const auto& spec : block_->specs)
    block_->offsets.push_back(block_->offsets.back()
                              + (spec.dims.elements() + granule - 1) / granule
                                  * granule);
  grow(copies, replicas);
  for (std::size_t i = 0; i < block_->specs.size(); ++i)
    variables_.emplace_back(block_, i);
}

void parameters::use_values(tensor flat) {
  if (copies() != 1)
    throw std::logic_error("parameters with " + std::to_string(copies())
                           + " copies cannot use another tensor");
  if (!flat || flat.spec() != values().spec()
      || flat.device() != values().device())
    throw std::invalid_argument(
      "parameters cannot use "
      + (flat ? to_string(flat.spec()) : std::string{"an empty tensor"})
      + " as their values, which are " + to_string(values().spec()));
  block_->values.front() = views_of(flat);
  block_->flat_values.front() = std::move(flat);
}

/// Returns the parameters in a flat buffer.
std::vector<tensor> parameters::views_of(const tensor& flat) const {
  std::vector<tensor> out;
  for (std::size_t i = 0; i < block_->specs.size(); ++i) {
    const auto& dims = block_->specs[i].dims;
    out.push_back(
      flat.range(offset(i), offset(i) + dims.elements()).reshaped(dims));
  }
  return out;
}

tensor parameters::allocate_tensor(const shape& dims, const device& on) {
  return tensor{tensor_spec{dims}, on};
}

void parameters::grow(std::uint32_t copies, std::uint32_t replicas,
                      tensor (*allocate)(const shape& dims, const device& on)) {
  for (std::size_t r = 1; copies == 1 && r < replicas; ++r)
    if (block_->device_of(r) != block_->device_of(0))
      throw std::logic_error("replicas on " + to_string(block_->device_of(0))
                             + " and " + to_string(block_->device_of(r))
                             + " cannot share one copy of the parameters");
  const auto add_buffers = [&](std::uint32_t count, auto& flat, auto& views,
                               bool is_copied) {
    while (flat.size() < count) {
      auto added = allocate({static_cast<std::int64_t>(size())},
                            block_->device_of(flat.size()));
      if (is_copied && !flat.empty())
        added.copy_from(flat.front());
      else
        set_zero(*block_, added, is_copied);
      views.push_back(views_of(added));
      flat.push_back(std::move(added));
    }
  };
  {
    const sharing_scope values_are_not_contributed{false};
    add_buffers(copies, block_->flat_values, block_->values, true);
  }
  add_buffers(replicas, block_->flat_gradients, block_->gradients, false);
}

std::uint32_t parameters::copies() const {
  return block_ ? static_cast<std::uint32_t>(block_->values.size()) : 0;
}

std::uint32_t parameters::replicas() const {
  return block_ ? static_cast<std::uint32_t>(block_->gradients.size()) : 0;
}

std::size_t parameters::size() const {
  return block_ ? block_->offsets.back() : 0;
}

std::size_t parameters::count() const {
  std::size_t total = 0;
  for (const auto& x : variables_)
    total += x.dims().elements();
  return total;
}

tensor parameters::values(std::uint32_t copy) const {
  return block_->flat_values.at(copy);
}

tensor parameters::gradients(std::uint32_t replica) const {
  return block_->flat_gradients.at(replica);
}

std::size_t parameters::offset(std::size_t index) const {
  return block_->offsets.at(index);
}

} // namespace troupe
