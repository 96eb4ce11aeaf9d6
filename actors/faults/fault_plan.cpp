#include "troupe/actors/faults/fault_plan.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>
#include <utility>

namespace troupe::injection {

namespace {

using namespace std::chrono_literals;
using place = plan_scope::place;

constexpr std::chrono::nanoseconds max_duration = 1h;

/// Formats a number in the shortest way that keeps six digits.
std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", x);
  return text;
}

std::string milliseconds(std::chrono::nanoseconds x) {
  return number(std::chrono::duration<double, std::milli>{x}.count());
}

std::string trigger_text(const trigger& when) {
  struct {
    std::string operator()(const at_step& x) const {
      return "step " + std::to_string(x.step);
    }
    std::string operator()(const at_message& x) const {
      return "message " + std::to_string(x.number);
    }
    std::string operator()(const at_packet& x) const {
      return "packet " + std::to_string(x.number);
    }
    std::string operator()(const at_time& x) const {
      return milliseconds(x.time) + " ms";
    }
  } const text;
  return " at " + std::visit(text, when);
}

bool is_at_step(const fault& one) {
  return one.when && std::holds_alternative<at_step>(*one.when);
}

/// The kinds that only one place runs need a step there.
bool is_for_simulator(const fault& one) {
  return one.kind == fault_kind::partition || one.kind == fault_kind::clog
         || (one.kind == fault_kind::kill && one.replica);
}

std::optional<std::string> problem_of_trigger(const trigger& when) {
  const auto* const message = std::get_if<at_message>(&when);
  const auto* const packet = std::get_if<at_packet>(&when);
  const auto* const time = std::get_if<at_time>(&when);
  if ((message && message->number < 1) || (packet && packet->number < 1))
    return std::string{message ? "message" : "packet"}
           + " is 0; they are counted from 1";
  if (time && (time->time < 0ns || time->time > 24 * max_duration))
    return "time_ms is " + milliseconds(time->time)
           + "; give a number from 0 to 86400000";
  return {};
}

std::optional<std::string> problem_of_duration(const fault& one) {
  const auto range =
    [&](const char* key,
        std::chrono::nanoseconds min) -> std::optional<std::string> {
    if (one.duration >= min && one.duration <= max_duration)
      return {};
    return key + (" is " + milliseconds(one.duration))
           + "; give milliseconds from " + milliseconds(min) + " to 3600000";
  };
  switch (one.kind) {
    case fault_kind::stop:
      return range("duration_ms", 1ms);
    case fault_kind::slow:
      return range("delay_ms", 1ns);
    case fault_kind::delay:
      return range("max_delay_ms", 1ns);
    default:
      return {};
  }
}

/// A fault of messages has a probability for each message, or one message of
/// one process.
std::optional<std::string> problem_of_messages(const fault& one) {
  if (one.probability.has_value() == one.when.has_value())
    return "probability is "
           + std::string{one.when ? "given with a trigger" : "missing"}
           + "; give probability, or one of step, message, packet and time_ms";
  if (one.probability && !(*one.probability >= 0 && *one.probability <= 1))
    return "probability is " + number(*one.probability)
           + "; give a number from 0 to 1";
  if (one.process && one.replica)
    return "replica is given with process; give one of them";
  if (one.when && !one.process)
    return "process is missing; name the process that sends the message";
  return {};
}

std::optional<std::string> problem_of_process(const fault& one) {
  if (one.kind == fault_kind::kill && one.process && one.replica)
    return "replica is given with process; give one of them";
  if (!one.process && !(one.kind == fault_kind::kill && one.replica))
    return "process is missing; give the number of a process";
  if (!one.when)
    return "step is missing; give one of step, message, packet and time_ms";
  if (is_for_simulator(one) && !is_at_step(one))
    return "step is missing; a fault of the simulator occurs at a step";
  if (one.kind == fault_kind::cut && (!one.peer || one.peer == one.process))
    return "peer is "
           + (one.peer ? std::to_string(*one.peer) : std::string{"missing"})
           + "; give the number of another process";
  if (one.kind == fault_kind::clog && !(one.factor >= 1 && one.factor <= 1e9))
    return "factor is " + number(one.factor) + "; give a number from 1 to 1e9";
  return {};
}

/// Says why a job with parameter servers does not run a fault that is one of
/// processes. None: it does.
std::optional<std::string> problem_with_servers(const fault& one,
                                                std::uint32_t workers) {
  if (one.is_of_messages())
    return "kind is \"" + std::string{to_string(one.kind)}
           + "\", and a job with parameter servers has no faults of single "
             "messages; give kill, stop, disconnect, cut or slow";
  const auto is_worker = [&](std::uint32_t x) { return x > 0 && x <= workers; };
  const auto is_server = [&](std::uint32_t x) { return x > workers; };
  const auto process = *one.process, peer = one.peer.value_or(process);
  if (one.peer && is_worker(process) && is_worker(peer))
    return "peer is " + std::to_string(peer)
           + "; two workers have no connection, so give the chief or a server";
  if (one.peer && is_server(process) && is_server(peer))
    return "peer is " + std::to_string(peer)
           + "; two servers may dial each other, so this cut is not possible; "
             "give the chief or a worker";
  const auto acting = std::min(process, peer); // it has dialed the other
  if (one.kind == fault_kind::slow && !is_worker(acting))
    return "process is " + std::to_string(acting)
           + ", which has no steps; only the workers have some: 1 to "
           + std::to_string(workers);
  const auto counts_no = [&](const char* key, const char* what,
                             const char* instead) {
    return key
           + (" cannot be given: process " + std::to_string(acting)
              + " counts no " + what + "; give ")
           + instead;
  };
  if (std::holds_alternative<at_packet>(*one.when))
    return counts_no("packet", "packets", "time_ms");
  if (std::holds_alternative<at_step>(*one.when) && !is_worker(acting))
    return counts_no("step", "steps, only a worker does",
                     is_server(acting) ? "message or time_ms" : "time_ms");
  if (std::holds_alternative<at_message>(*one.when) && !is_server(acting))
    return counts_no("message", "messages, only a server does",
                     is_worker(acting) ? "step or time_ms" : "time_ms");
  return {};
}

/// Says why a place does not run a fault. None: it does.
std::optional<std::string> problem_of_place(const fault& one,
                                            const plan_scope& scope) {
  const std::string kind = to_string(one.kind);
  if (scope.where != place::simulator) {
    if (one.kind == fault_kind::kill && one.replica)
      return "replica is " + std::to_string(*one.replica)
             + "; only the simulator kills a replica; give the number of a "
               "process";
    if (is_for_simulator(one))
      return "kind is \"" + kind
             + "\", which only the simulator runs; over processes give kill, "
               "stop, disconnect, cut, slow, drop, duplicate, corrupt or delay";
    if (scope.where == place::parameter_servers)
      return problem_with_servers(one, scope.workers);
    return {};
  }
  const bool runs = is_for_simulator(one)
                    || (one.kind == fault_kind::disconnect && is_at_step(one))
                    || (one.is_of_messages() && one.probability && !one.process
                        && one.kind != fault_kind::corrupt);
  if (runs)
    return {};
  return "kind is \"" + kind + "\", and the simulator does not run "
         + to_string(one)
         + "; give a kill of a replica, a disconnect, partition or clog at a "
           "step, or a drop, duplicate or delay with a probability";
}

std::optional<std::string> problem_of_number(const char* key,
                                             std::optional<std::uint32_t> x,
                                             std::optional<std::uint32_t> count,
                                             const char* of) {
  if (!x || !count || *x < *count)
    return {};
  return key + (" is " + std::to_string(*x)) + "; the job has the " + of
         + " 0 to " + std::to_string(*count - 1);
}

} // namespace

const char* to_string(fault_kind kind) {
  constexpr std::array names{"kill",      "stop",    "disconnect", "cut",
                             "partition", "clog",    "slow",       "drop",
                             "duplicate", "corrupt", "delay"};
  return names.at(static_cast<std::size_t>(kind));
}

std::string to_string(const fault& of) {
  std::string text = to_string(of.kind);
  if (of.process)
    text += " of process " + std::to_string(*of.process);
  if (of.replica)
    text += " of replica " + std::to_string(*of.replica);
  if (of.peer)
    text += " from process " + std::to_string(*of.peer);
  if (of.when)
    text += trigger_text(*of.when);
  if (of.probability)
    text += " with probability " + number(*of.probability);
  if (of.duration > 0ns)
    text += ", " + milliseconds(of.duration) + " ms";
  return text;
}

std::optional<std::string> problem_of(const fault& one) {
  auto problem =
    one.is_of_messages() ? problem_of_messages(one) : problem_of_process(one);
  if (!problem && one.when)
    problem = problem_of_trigger(*one.when);
  return problem ? problem : problem_of_duration(one);
}

std::optional<std::string> problem_of(const faults& plan,
                                      const plan_scope& scope) {
  for (std::size_t i = 0; i < plan.list().size(); ++i) {
    const auto& one = plan.list()[i];
    auto problem =
      problem_of_number("process", one.process, scope.processes, "processes");
    if (!problem)
      problem =
        problem_of_number("peer", one.peer, scope.processes, "processes");
    if (!problem)
      problem =
        problem_of_number("replica", one.replica, scope.replicas, "replicas");
    if (!problem)
      problem = problem_of_place(one, scope);
    if (problem)
      return "faults[" + std::to_string(i) + "]." + *problem;
  }
  return {};
}

faults& faults::add(const fault& one) {
  if (const auto problem = problem_of(one))
    throw std::invalid_argument(
      "a fault of kind " + std::string{to_string(one.kind)} + ": " + *problem);
  list_.push_back(one);
  return *this;
}

faults& faults::kill(replica target, at_step when) {
  return add({.replica = target.id, .when = when});
}

faults& faults::kill(process target, const trigger& when) {
  return add({.process = target.id, .when = when});
}

faults& faults::stop(process target, const trigger& when, duration time) {
  return add({.kind = fault_kind::stop,
              .process = target.id,
              .when = when,
              .duration = time});
}

faults& faults::disconnect(process target, const trigger& when) {
  return add(
    {.kind = fault_kind::disconnect, .process = target.id, .when = when});
}

faults& faults::cut(process target, process peer, const trigger& when) {
  return add({.kind = fault_kind::cut,
              .process = target.id,
              .peer = peer.id,
              .when = when});
}

faults& faults::partition(process target, at_step when) {
  return add(
    {.kind = fault_kind::partition, .process = target.id, .when = when});
}

faults& faults::clog(process target, at_step when, double factor) {
  return add({.kind = fault_kind::clog,
              .process = target.id,
              .when = when,
              .factor = factor});
}

faults& faults::slow(process target, const trigger& when, duration time,
                     std::uint64_t steps) {
  return add({.kind = fault_kind::slow,
              .process = target.id,
              .when = when,
              .duration = time,
              .steps = steps});
}

faults& faults::drop(double probability) {
  return add({.kind = fault_kind::drop, .probability = probability});
}

faults& faults::drop(replica target, double probability) {
  return add({.kind = fault_kind::drop,
              .replica = target.id,
              .probability = probability});
}

faults& faults::drop(process target, const trigger& when) {
  return add({.kind = fault_kind::drop, .process = target.id, .when = when});
}

faults& faults::duplicate(double probability) {
  return add({.kind = fault_kind::duplicate, .probability = probability});
}

faults& faults::duplicate(replica target, double probability) {
  return add({.kind = fault_kind::duplicate,
              .replica = target.id,
              .probability = probability});
}

faults& faults::duplicate(process target, const trigger& when) {
  return add(
    {.kind = fault_kind::duplicate, .process = target.id, .when = when});
}

faults& faults::corrupt(double probability) {
  return add({.kind = fault_kind::corrupt, .probability = probability});
}

faults& faults::corrupt(process target, const trigger& when) {
  return add({.kind = fault_kind::corrupt, .process = target.id, .when = when});
}

faults& faults::delay(double probability, duration max_delay) {
  return add({.kind = fault_kind::delay,
              .probability = probability,
              .duration = max_delay});
}

faults& faults::delay(replica target, double probability, duration max_delay) {
  return add({.kind = fault_kind::delay,
              .replica = target.id,
              .probability = probability,
              .duration = max_delay});
}

faults& faults::delay(process target, const trigger& when, duration max_delay) {
  return add({.kind = fault_kind::delay,
              .process = target.id,
              .when = when,
              .duration = max_delay});
}

} // namespace troupe::injection
