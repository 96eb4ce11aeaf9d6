#include "troupe/actors/collectives/nccl/communicator/device_offer.hpp"

#include "troupe/actors/collectives/nccl/communicator/device_communicator.hpp"
#include "troupe/net/base/text.hpp"

#include <cstdlib>
#include <map>

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

namespace {

std::string environment(const char* name) {
  const auto* const value = std::getenv(name);
  return value ? value : "";
}

/// Identity of a card among those of all hosts. With the variable NCCL_HOSTID,
/// which NCCL adds to the identity of the host, processes of one machine with
/// different values may use the same card.
std::string identity_of(communication_device& card) {
  const auto host = environment("NCCL_HOSTID");
  return card.identity() + (host.empty() ? "" : "@" + host);
}

} // namespace

device_offer make_device_offer(const device_sum_options& options) {
  if (options.devices.empty())
    return {{}, {}, options.why_none};
  if (const auto blocking = environment("NCCL_COMM_BLOCKING"); blocking == "1")
    return {{},
            {},
            "the variable NCCL_COMM_BLOCKING is 1, and then a wait for a lost "
            "process never ends; unset it"};
  device_offer out;
  for (const auto& one : options.devices)
    out.devices.push_back(identity_of(*one));
  out.library = options.devices.front()->library_version();
  return out;
}

namespace {

using net::printable; // the texts come from other processes

std::string device_count_text(const named_offer& x) {
  const auto count = x.offer.devices.size();
  return x.process + " has " + std::to_string(count)
         + (count == 1 ? " device" : " devices");
}

/// Says how an offer differs from the first one. Empty: NCCL can add the sums
/// of both.
std::string difference(const named_offer& first, const named_offer& other) {
  if (other.offer.library != first.offer.library)
    return first.process + " has NCCL " + printable(first.offer.library)
           + ", but " + other.process + " has NCCL "
           + printable(other.offer.library)
           + "; install one version on all machines";
  if (other.offer.devices.size() != first.offer.devices.size())
    return device_count_text(first) + ", but " + device_count_text(other)
           + "; give all workers equally many";
  return {};
}

} // namespace

std::string why_not_nccl(std::span<const named_offer> offers) {
  std::map<std::string, const named_offer*> owners; // by device
  for (const auto& one : offers) {
    if (one.offer.devices.empty())
      return one.process + " cannot use NCCL: " + printable(one.offer.why_none)
             + "; correct this";
    if (auto text = difference(offers.front(), one); !text.empty())
      return text;
    for (const auto& device : one.offer.devices) {
      const auto [same, is_new] = owners.try_emplace(device, &one);
      if (!is_new && same->second == &one)
        return one.process + " has the card " + printable(device)
               + " twice; name each card once";
      if (!is_new)
        return same->second->process + " and " + one.process
               + " have the same card (" + printable(device)
               + "), but NCCL needs one for each worker; give each worker "
                 "another device";
    }
  }
  return {};
}

} // namespace troupe
