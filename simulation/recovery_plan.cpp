#include "troupe/simulation/recovery_plan.hpp"

#include <random>

namespace troupe::simulation {

namespace {

using std::chrono::milliseconds;

/// Maximum number of messages between a moment and its fault. It is more than
/// those of a step.
constexpr std::uint64_t max_messages = 900;

class plan_generator {
public:
  plan_generator(std::uint64_t seed, std::uint64_t steps)
    : steps_{steps}, rng_{seed} {}

  recovery_plan make() {
    plan_.processes = static_cast<std::uint32_t>(between(2, 4));
    plan_.on_one_host = happens(0.7);
    plan_.has_launcher = plan_.on_one_host && happens(0.5);
    if (happens(0.7))
      plan_.latency = std::chrono::microseconds{happens(0.5) ? 1000 : 5000};
    if (happens(0.2))
      plan_.delayed = 0.02;
    if (happens(0.2))
      plan_.duplicated = 0.02;
    const auto count = between(1, 3);
    for (std::uint64_t i = 0; i < count; ++i)
      add();
    return plan_;
  }

private:
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + rng_() % (high - low + 1);
  }
  bool happens(double probability) {
    return static_cast<double>(rng_() >> 11) * 0x1p-53 < probability;
  }
  milliseconds delay(std::uint64_t low, std::uint64_t high) {
    return milliseconds{static_cast<std::int64_t>(between(low, high))};
  }

  void add() {
    using enum process_fault::kind;
    process_fault out;
    out.task = static_cast<std::uint32_t>(between(0, plan_.processes - 1));
    set_moment(out);
    const auto choice = between(0, 99);
    if (choice < 45) {
      out.type = kill;
    } else if (choice < 50) {
      out.type = power_off;
    } else if (choice < 65) {
      out.type = stop;
      // half of the time less than the heartbeat timeout
      out.until = happens(0.5) ? delay(1, 900) : delay(900, 3000);
    } else if (choice < 73) {
      out.type = partition;
    } else if (choice < 81) {
      out.type = cut;
      out.peer = static_cast<std::uint32_t>(between(0, plan_.processes - 2));
      out.peer += out.peer >= out.task;
    } else {
      out.type = leave;
    }
    if ((out.type == kill || out.type == power_off) && happens(0.5))
      out.until = delay(1, happens(0.5) ? 50 : 400);
    plan_.faults.push_back(out);
  }

  void set_moment(process_fault& out) {
    using enum process_fault::moment;
    const bool is_first = plan_.faults.empty();
    const auto choice = between(0, 99);
    if (is_first || choice < 40) {
      out.when = step;
      out.count = between(0, steps_ - 1);
      out.messages = between(0, max_messages);
    } else if (choice < 80) {
      out.when = view_message;
      out.count = between(1, 40);
      out.messages = between(0, happens(0.5) ? 5 : 200);
    } else {
      out.when = with_last;
    }
  }

  const std::uint64_t steps_;
  std::mt19937_64 rng_;
  recovery_plan plan_;
};

} // namespace

recovery_plan random_recovery_plan(std::uint64_t seed, std::uint64_t steps) {
  return plan_generator{seed, steps}.make();
}

const char* name_of(process_fault::kind kind) {
  using enum process_fault::kind;
  switch (kind) {
    case kill:
      return "kill";
    case power_off:
      return "power off";
    case stop:
      return "stop";
    case partition:
      return "partition";
    case cut:
      return "cut";
    case leave:
      return "leave";
  }
  return "";
}

std::string to_string(const process_fault& fault) {
  using enum process_fault::kind;
  using enum process_fault::moment;
  auto out =
    std::string{name_of(fault.type)} + " " + std::to_string(fault.task);
  if (fault.type == cut)
    out += "-" + std::to_string(fault.peer);
  switch (fault.when) {
    case step:
      out += " at step " + std::to_string(fault.count) + " + "
             + std::to_string(fault.messages);
      break;
    case view_message:
      out += " at view message " + std::to_string(fault.count) + " + "
             + std::to_string(fault.messages);
      break;
    case with_last:
      out += " at once";
      break;
  }
  if (fault.until)
    out += (fault.type == stop ? ", goes on after " : ", starts again after ")
           + std::to_string(fault.until->count()) + " ms";
  return out;
}

std::string to_string(const recovery_plan& plan) {
  auto out = std::to_string(plan.processes) + " processes on "
             + (plan.on_one_host ? "one host" : "several hosts")
             + (plan.has_launcher ? " with a launcher" : "");
  out += ", latency " + std::to_string(plan.latency.count()) + " us";
  if (plan.delayed > 0)
    out += ", delays";
  if (plan.duplicated > 0)
    out += ", duplicates";
  for (const auto& one : plan.faults)
    out += "; " + to_string(one);
  return out;
}

} // namespace troupe::simulation
