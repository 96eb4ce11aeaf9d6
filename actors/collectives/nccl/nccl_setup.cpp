#include "troupe/actors/collectives/nccl/nccl_setup.hpp"

#include "troupe/actors/collectives/nccl/communicator/communicator_ids.hpp"
#include "troupe/actors/core/log.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace troupe {

using namespace std::chrono_literals;

void nccl_setup::failure::set(const std::string& cause) {
  const std::lock_guard hold{lock};
  text = "it has failed before: " + cause;
}

nccl_setup::nccl_setup(device_sum_options options)
  : options_{std::move(options)} {}

nccl_options
nccl_setup::options_of_ranks(std::chrono::milliseconds step_timeout) const {
  nccl_options out;
  out.initialize_timeout = step_timeout;
  // The chief notices a step that is late first, and knows more.
  out.operation_timeout = 2 * step_timeout;
  out.finalize_timeout = 1000ms;
  out.holds_first_groups = true;
  out.error_report_delay = std::min<std::chrono::milliseconds>(
    out.error_report_delay, step_timeout / 4);
  out.close_timeout = 2000ms;
  if (options_.policy != device_sum_policy::required)
    out.on_failure = [into = failure_](const auto& found) {
      if (found.code != ec::protocol) // which the program has caused
        into->set(found.cause);
    };
  return out;
}

nccl_setup::result
nccl_setup::make(const local_placement& processes,
                 const std::shared_ptr<communicator_id_exchange>& ids,
                 std::chrono::milliseconds step_timeout) {
  if (const std::lock_guard hold{failure_->lock}; !failure_->text.empty())
    return {{{}, {}, failure_->text}, nullptr};
  if (options_.devices.empty())
    return {make_device_offer(options_), nullptr};
  if (!claims_.claim(options_.devices))
    return {{{},
             {},
             "another strategy of this process adds on its devices through "
             "NCCL"},
            nullptr};
  try {
    return {make_device_offer(options_),
            std::make_shared<nccl_ranks>(processes, options_.devices, ids,
                                         blocking_,
                                         options_of_ranks(step_timeout))};
  } catch (const device_lost&) {
    throw; // the host cannot add either
  } catch (const device_error& e) {
    if (options_.policy != device_sum_policy::required)
      failure_->set(e.what());
    return {{{}, {}, e.what()}, nullptr};
  }
}

std::shared_ptr<nccl_ranks>
nccl_setup::make_for_one_process(std::uint32_t replicas,
                                 std::chrono::milliseconds step_timeout) {
  if (options_.policy == device_sum_policy::never)
    return nullptr;
  auto [offer, ranks] = make(
    {placement{replicas}}, std::make_shared<communicator_ids>(), step_timeout);
  const std::array own{named_offer{"this process", std::move(offer)}};
  const bool is_first = !std::exchange(has_begun_, true);
  if (const auto refusal = why_not_nccl(own); !refusal.empty()) {
    if (options_.policy == device_sum_policy::required && is_first)
      throw std::invalid_argument(refusal + ", or let the host add the sums");
    log(log_level::warning,
        "the host adds the sums of the devices: " + refusal);
    return nullptr;
  }
  return std::move(ranks);
}

} // namespace troupe
