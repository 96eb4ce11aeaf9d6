#include "troupe/simulation/recovery_plan.hpp"

#include <random>

namespace troupe::simulation {

namespace {

using std::chrono::milliseconds;

/// Maximum number of messages between a moment and its fault. It is more than
/// those of a step.
constexpr std::uint64_t max_messages = 900;
/// Number of packets that most jobs send at least.
constexpr std::uint64_t min_packets = 300;
/// Number of messages at whose end most jobs have begun.
constexpr std::uint64_t start_messages = 200;

class plan_generator {
public:
  explicit plan_generator(std::uint64_t seed) : rng_{seed} {}

  recovery_plan make() {
    plan_.processes = static_cast<std::uint32_t>(between(2, 4));
    if (happens(0.4))
      plan_.program =
        happens(0.5) ? job_program::plain_loop : job_program::joinable_loop;
    if (happens(0.5))
      plan_.user_code_time = happens(0.5) ? delay(1, 20) : delay(20, 300);
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
    plan_.reconnects = happens(0.7);
    for (auto& one : plan_.faults)
      if (one.type == process_fault::kind::partition && plan_.processes > 2
          && happens(0.5))
        make_split(one);
    if (plan_.program == job_program::fits && happens(0.4))
      plan_.prefetch = between(1, 3);
    if (happens(0.15))
      plan_.lost_packets = packets();
    if (happens(0.1))
      plan_.corrupt_packets = packets();
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
      set_peer(out);
    } else if (plan_.program == job_program::fits) {
      out.type = leave;
    }
    if ((out.type == kill || out.type == power_off) && happens(0.5))
      out.until = delay(1, happens(0.5) ? 50 : 400);
    plan_.faults.push_back(out);
  }

  std::vector<std::uint64_t> packets() {
    std::vector<std::uint64_t> out(between(1, 2));
    for (auto& one : out)
      one = between(0, min_packets);
    return out;
  }

  void make_split(process_fault& out) {
    out.type = process_fault::kind::split;
    set_peer(out);
  }

  void set_peer(process_fault& out) {
    out.peer = static_cast<std::uint32_t>(between(0, plan_.processes - 2));
    out.peer += out.peer >= out.task;
  }

  void set_moment(process_fault& out) {
    using enum process_fault::moment;
    const bool is_first = plan_.faults.empty();
    const auto choice = between(0, 99);
    if (choice < (is_first ? 55 : 30)) {
      out.when = step;
      out.count = between(0, recovery_steps - 1);
      out.messages = between(0, max_messages);
    } else if (is_first && choice < 60) {
      out.when = delivery;
      out.count = between(0, start_messages);
    } else if (is_first || choice < 50) {
      out.when = user_code;
      out.count = user_code_piece();
      out.messages = happens(0.6) ? 0 : between(0, 100);
    } else if (choice < 85) {
      out.when = view_message;
      out.count = between(1, 40);
      out.messages = between(0, happens(0.5) ? 5 : 200);
    } else {
      out.when = with_last;
    }
  }

  /// Most often the first and the last one.
  std::uint64_t user_code_piece() {
    const auto last = user_code_pieces(plan_.program);
    if (happens(0.2))
      return happens(0.5) ? 1 : last;
    return between(1, last);
  }

  std::mt19937_64 rng_;
  recovery_plan plan_;
};

} // namespace

recovery_plan random_recovery_plan(std::uint64_t seed) {
  return plan_generator{seed}.make();
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
    case split:
      return "split";
    case cut:
      return "cut";
    case leave:
      return "leave";
    case block:
      return "block";
  }
  return "";
}

const char* name_of(job_program program) {
  constexpr const char* names[] = {"fits", "plain loop", "joinable loop"};
  return names[std::size_t(program)];
}

std::string to_string(const process_fault& fault) {
  using enum process_fault::kind;
  using enum process_fault::moment;
  auto out =
    std::string{name_of(fault.type)} + " " + std::to_string(fault.task);
  if (fault.type == split)
    out += " and " + std::to_string(fault.peer);
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
    case user_code:
      out += " in its own code " + std::to_string(fault.count) + " + "
             + std::to_string(fault.messages);
      break;
    case delivery:
      out += " at message " + std::to_string(fault.count);
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
             + (plan.has_launcher ? " with a launcher" : "")
             + (plan.reconnects ? " that connect again" : "");
  out += std::string{", "} + name_of(plan.program);
  if (plan.user_code_time.count() > 0)
    out += ", up to " + std::to_string(plan.user_code_time.count())
           + " ms in its own code";
  if (plan.prefetch > 0)
    out += ", " + std::to_string(plan.prefetch) + " batches read ahead";
  out += ", latency " + std::to_string(plan.latency.count()) + " us";
  if (plan.delayed > 0)
    out += ", delays";
  if (plan.duplicated > 0)
    out += ", duplicates";
  for (const auto one : plan.lost_packets)
    out += "; packet " + std::to_string(one) + " is lost";
  for (const auto one : plan.corrupt_packets)
    out += "; packet " + std::to_string(one) + " is corrupt";
  for (const auto& one : plan.faults)
    out += "; " + to_string(one);
  return out;
}

} // namespace troupe::simulation
