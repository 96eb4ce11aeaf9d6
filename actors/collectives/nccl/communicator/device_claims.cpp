#include "troupe/actors/collectives/nccl/communicator/device_claims.hpp"

#include <algorithm>
#include <map>
#include <mutex>

namespace troupe {

namespace {

/// The claimed devices of this process.
struct claimed_devices {
  std::mutex lock;
  std::map<const communication_device*, const device_claims*> owners;
};

/// Never destroyed, because static strategies could be destroyed later.
claimed_devices& claimed() {
  static auto* const all = new claimed_devices;
  return *all;
}

} // namespace

device_claims::~device_claims() {
  auto& all = claimed();
  const std::lock_guard hold{all.lock};
  std::erase_if(all.owners, [this](const auto& x) { return x.second == this; });
}

bool device_claims::claim(
  std::span<const std::shared_ptr<communication_device>> devices) {
  auto& all = claimed();
  const std::lock_guard hold{all.lock};
  const auto is_free = [&](const auto& one) {
    const auto at = all.owners.find(one.get());
    return at == all.owners.end() || at->second == this;
  };
  if (!std::ranges::all_of(devices, is_free))
    return false;
  for (const auto& one : devices)
    all.owners[one.get()] = this;
  return true;
}

} // namespace troupe
