#include "troupe/actors/collectives/nccl/device_offer.hpp"

#include "troupe/actors/collectives/nccl/device_communicator.hpp"
#include "troupe/net/base/text.hpp"

#include <algorithm>

namespace troupe {

std::string to_string(device_sum_policy policy) {
  switch (policy) {
    case device_sum_policy::never:
      return "on the host";
    case device_sum_policy::if_possible:
      return "by NCCL if possible";
    default:
      return "by NCCL";
  }
}

device_offer make_device_offer(const device_sum_options& options) {
  if (!options.device)
    return {{}, {}, options.why_none};
  return {options.device->identity(), options.device->library_version(), {}};
}

std::string why_not_nccl(std::span<const named_offer> offers) {
  using net::printable; // the texts come from other processes
  for (auto one = offers.begin(); one != offers.end(); ++one) {
    if (one->offer.device.empty())
      return one->process
             + " cannot use NCCL: " + printable(one->offer.why_none);
    const auto& first = offers.front();
    if (one->offer.library != first.offer.library)
      return first.process + " has NCCL " + printable(first.offer.library)
             + ", but " + one->process + " has NCCL "
             + printable(one->offer.library)
             + "; install one version on all machines";
    const auto same =
      std::ranges::find(offers.begin(), one, one->offer.device,
                        [](const named_offer& x) { return x.offer.device; });
    if (same != one)
      return same->process + " and " + one->process + " have the same card ("
             + printable(one->offer.device)
             + "), but NCCL needs one for each worker; give each worker "
               "another "
               "device";
  }
  return {};
}

} // namespace troupe
