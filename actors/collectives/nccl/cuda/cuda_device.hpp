#pragma once

#include "troupe/actors/collectives/nccl/communicator/device_communicator.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::cuda {

/// A CUDA device that communicates through NCCL. Its communicators do not
/// block: NCCL joins the ranks and starts groups on threads of its own, and
/// `status` says when that is done.
class communication_device final : public troupe::communication_device {
public:
  /// @errors throws device_error: no driver, no such device, or no NCCL.
  explicit communication_device(std::uint32_t index);

  /// UUID of the card.
  std::string identity() override;
  std::string library_version() override;

  communicator_id make_id() override;
  std::unique_ptr<device_communicator> initialize(const communicator_id& id,
                                                  std::uint32_t ranks,
                                                  std::uint32_t rank) override;
  std::shared_ptr<device_stream> make_stream() override;
  std::shared_ptr<device_stream> compute_stream() override;
  /// Keeps freed memory for later calls.
  device_memory allocate(memory_kind kind, std::size_t bytes) override;
  /// Copies the elements to the host, and waits for that copy. It does not wait
  /// for other streams.
  tensor tensor_of(const device_memory& memory,
                   const tensor_spec& spec) override;

private:
  class memory_cache;
  int index_;
  /// Stream for copies to the host. The memory cache uses it too, so that
  /// neither waits for work of other streams.
  std::shared_ptr<class stream> copies_;
  std::shared_ptr<memory_cache> cache_;
};

} // namespace troupe::cuda
