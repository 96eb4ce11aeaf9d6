#include "troupe/tensors/device_backend.hpp"

#include "troupe/tensors/op.hpp"

#ifdef TROUPE_HAS_CUDA
#include "troupe/tensors/cuda/cuda_backend.hpp"
#endif

#include <array>
#include <atomic>
#include <stdexcept>
#include <string>

namespace troupe {

namespace {

std::array<std::atomic<device_backend*>, device_kinds> backends{};

const op_kernels* find(device_backend* backend, device_kind kind,
                       const op& definition, dtype type) {
  const auto* const own = definition.find_kernels(type, kind);
  return own || !backend ? own : backend->find_kernels(definition, type);
}

} // namespace

void set_device_backend(device_kind kind, device_backend* backend) {
  if (kind == device_kind::cpu)
    throw std::logic_error("the backend of the CPU cannot be replaced");
  backends[std::size_t(kind)].store(backend, std::memory_order_release);
}

device_backend* find_device_backend(device_kind kind) {
  if (auto* const set =
        backends[std::size_t(kind)].load(std::memory_order_acquire))
    return set;
#ifdef TROUPE_HAS_CUDA
  if (kind == device_kind::cuda)
    return cuda::find_devices();
#endif
  return nullptr;
}

std::string why_no_cuda_device() {
  const auto* const backend = find_device_backend(device_kind::cuda);
  if (backend)
    return backend->count() > 0
             ? ""
             : "this machine has no CUDA device; use one that has";
#ifdef TROUPE_HAS_CUDA
  return cuda::why_no_devices();
#else
  return "Troupe was built without CUDA; build it with TROUPE_CUDA=ON";
#endif
}

device_backend& backend_of(const device& on) {
  auto* const found = find_device_backend(on.kind);
  if (!found || on.index >= found->count())
    throw std::logic_error(
      "device " + to_string(on) + " does not exist"
      + (found ? "; there are " + std::to_string(found->count()) : ""));
  return *found;
}

void check_devices(std::span<const device> devices) {
  for (const auto& one : devices)
    if (one.kind != device_kind::cpu)
      backend_of(one).check_usable(one);
}

const op_kernels* kernels_on(const device& on, const op& definition,
                             dtype type) {
  if (on.kind == device_kind::cpu || definition.runs_on_any_device)
    return definition.select_kernels(type);
  auto* const backend = find_device_backend(on.kind);
  const auto* const own = find(backend, on.kind, definition, type);
  return own || type != dtype::bfloat16
           ? own
           : find(backend, on.kind, definition, dtype::float32);
}

} // namespace troupe
