#include "troupe/actors/faults/process_fault_injector.hpp"

#include "troupe/actors/core/log.hpp"
#include "troupe/actors/faults/fault_plan_json.hpp"
#include "troupe/actors/faults/message_fault.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

namespace troupe::injection {

namespace {

using std::chrono::nanoseconds;

/// True if the fault is one of the whole process that it inflicts on itself.
bool is_of_process(const fault& one) {
  return !one.is_of_messages() && one.kind != fault_kind::slow;
}

/// True if only packets between processes have the fault: a message to a
/// mailbox of the same process cannot be lost, and has no header.
bool is_of_packets(const fault& one) {
  return one.kind == fault_kind::drop || one.kind == fault_kind::corrupt;
}

/// Number of the process that inflicts a fault: of two processes, the one that
/// has dialed the other.
std::optional<std::uint32_t> acting_process(const fault& one,
                                            bool lower_dials) {
  if (!one.peer)
    return one.process;
  return lower_dials ? std::min(one.process, one.peer)
                     : std::max(one.process, one.peer);
}

constexpr role_id chief{role_id::kind::chief, 0};

} // namespace

/// A message or packet that is sent, or a step that begins without one.
struct process_fault_injector::event {
  const role_id& sender;
  const role_id& receiver;
  std::optional<std::uint64_t> step; ///< None: the user does not count it.
  bool is_packet;
  bool is_step = false; ///< No message.
};

process_fault_injector::process_fault_injector(const faults& plan,
                                               std::uint32_t process,
                                               fault_notes notes,
                                               process_faults functions)
  : process_{process},
    notes_{std::move(notes)},
    functions_{std::move(functions)},
    // The processes draw different numbers from the seed of the plan.
    rng_{plan.seed() + 0x9E3779B97F4A7C15 * (std::uint64_t{process} + 1)} {
  const auto before = notes_.read();
  bool has_times = false;
  for (std::size_t i = 0; i < plan.list().size(); ++i) {
    const auto& one = plan.list()[i];
    if (!concerns_this_process(one) || (one.when && before.contains(i)))
      continue;
    planned_.push_back({.what = one, .index = i});
    has_times |=
      is_of_process(one) && std::holds_alternative<at_time>(*one.when);
  }
  if (has_times)
    watch_ = std::thread{[this] { watch_times(); }};
}

process_fault_injector::~process_fault_injector() {
  {
    const std::lock_guard hold{lock_};
    is_ending_ = true;
  }
  ending_.notify_all();
  if (watch_.joinable())
    watch_.join();
}

bool process_fault_injector::concerns_this_process(const fault& one) const {
  const auto acting = acting_process(one, functions_.lower_dials);
  return !acting || *acting == process_;
}

fault_injector::injected_fault
process_fault_injector::on_send(const role_id& sender, const role_id& receiver,
                                message_kind, std::uint64_t,
                                std::uint64_t step) {
  return on_event({sender, receiver, steps()->user_step_of(step), false});
}

fault_injector::injected_fault
process_fault_injector::on_packet(const role_id& sender,
                                  const role_id& receiver, message_kind,
                                  std::uint64_t, std::uint64_t step) {
  return on_event({sender, receiver, steps()->user_step_of(step), true});
}

void process_fault_injector::on_step(std::uint64_t step) {
  on_event({replica_id(process_), chief, step, false, true});
}

void process_fault_injector::on_answer() {
  on_event({{role_id::kind::local_agent, process_}, chief, {}, false});
}

fault_injector::injected_fault
process_fault_injector::on_event(const event& of) {
  injected_fault out;
  std::vector<fault> due; // of the whole process
  nanoseconds wait{0};
  {
    const std::lock_guard hold{lock_};
    messages_ += !of.is_step;
    packets_ += of.is_packet;
    for (auto& one : planned_) {
      if (one.what.is_of_messages()) {
        apply_to_message(one, of, out);
      } else if (one.what.kind == fault_kind::slow) {
        wait += slow_time(one, of);
      } else if (!one.is_done && is_due(one.what, of)) {
        note(one);
        due.push_back(one.what);
      }
    }
  }
  for (const auto& one : due)
    inflict(one);
  if (wait > nanoseconds{0})
    functions_.wait(wait);
  return out;
}

/// True if the trigger of a fault is reached.
bool process_fault_injector::is_due(const fault& one, const event& of) const {
  if (is_of_packets(one) && !of.is_packet)
    return false;
  const auto& when = *one.when;
  if (const auto* const x = std::get_if<at_step>(&when))
    return of.sender.role == role_id::kind::replica && of.step
           && *of.step >= x->step;
  if (const auto* const x = std::get_if<at_message>(&when))
    return messages_ >= x->number;
  if (const auto* const x = std::get_if<at_packet>(&when))
    return of.is_packet && packets_ >= x->number;
  return clock::now() - begin_ >= std::get<at_time>(when).time;
}

void process_fault_injector::apply_to_message(planned_fault& one,
                                              const event& of,
                                              injected_fault& out) {
  const auto& what = one.what;
  if (what.when) {
    if (one.is_done || !is_due(what, of))
      return;
  } else if ((is_of_packets(what) && !of.is_packet)
             || !occurs_to_message(what, of.sender, of.receiver, rng_)) {
    return;
  }
  note(one);
  apply_fault(what, rng_, out);
}

/// Returns the time for which the replica that sends has to wait: once in each
/// step of a `slow`.
nanoseconds process_fault_injector::slow_time(planned_fault& one,
                                              const event& of) {
  if (one.is_done || of.sender.role != role_id::kind::replica || !of.step
      || one.slow_step == of.step || (!one.slow_step && !is_due(one.what, of)))
    return nanoseconds{0};
  note(one);
  one.slow_step = of.step;
  // `note` ends a fault with a trigger; this one goes on.
  one.is_done = ++one.slow_steps == one.what.steps;
  return one.what.duration;
}

/// Notes that a fault occurs, before it does.
void process_fault_injector::note(planned_fault& one) {
  one.is_done = one.what.when.has_value();
  if (std::exchange(one.is_noted, true))
    return;
  notes_.note(one.index, process_);
  log(log_level::warning, "fault: process " + std::to_string(process_)
                            + ": faults[" + std::to_string(one.index) + "], "
                            + to_string(one.what));
}

void process_fault_injector::inflict(const fault& one) const {
  switch (one.kind) {
    case fault_kind::kill:
      return functions_.kill();
    case fault_kind::stop:
      return functions_.stop(one.duration);
    default: // disconnect and cut; the plan has no others over processes
      functions_.cut(one.peer == process_ ? one.process : one.peer);
  }
}

/// Inflicts the faults of the whole process whose time has come.
void process_fault_injector::watch_times() {
  std::unique_lock hold{lock_};
  while (!is_ending_) {
    auto next = clock::time_point::max();
    std::vector<fault> due;
    for (auto& one : planned_) {
      if (one.is_done || !is_of_process(one.what)
          || !std::holds_alternative<at_time>(*one.what.when))
        continue;
      const auto time = begin_ + std::get<at_time>(*one.what.when).time;
      if (time > clock::now()) {
        next = std::min(next, time);
      } else {
        note(one);
        due.push_back(one.what);
      }
    }
    if (due.empty() && next == clock::time_point::max())
      return;
    if (due.empty()) {
      ending_.wait_until(hold, next, [this] { return is_ending_; });
      continue;
    }
    hold.unlock();
    for (const auto& one : due)
      inflict(one);
    hold.lock();
  }
}

namespace {

/// @param scope of the plan. Its number of processes is not used.
std::shared_ptr<process_fault_injector>
make_injector(const plan_location& location, plan_scope scope,
              const std::vector<net::address>& addresses,
              std::uint32_t own_task) {
  auto file = location.file;
  if (const auto* const named = std::getenv(plan_location::variable);
      file.empty() && named)
    file = named;
  if (file.empty())
    return nullptr;
  scope.processes = static_cast<std::uint32_t>(addresses.size());
  const bool lower_dials = scope.where == plan_scope::place::parameter_servers;
  return std::make_shared<process_fault_injector>(
    load_fault_plan(file, scope), own_task, fault_notes::from_environment(),
    real_process_faults(addresses, own_task, lower_dials));
}

} // namespace

std::shared_ptr<fault_injector>
make_process_fault_injector(const plan_location& location,
                            const std::vector<net::address>& addresses,
                            std::uint32_t own_task, std::uint32_t replicas) {
  return make_injector(location, {plan_scope::place::processes, {}, replicas},
                       addresses, own_task);
}

std::shared_ptr<process_fault_injector>
make_process_fault_injector(const plan_location& location,
                            const net::cluster_spec& cluster,
                            const net::cluster_task& task) {
  std::vector<net::address> addresses;
  std::optional<std::uint32_t> own_task;
  for (const std::string job : {"chief", "worker", "ps"})
    if (cluster.has(job))
      for (const auto& [index, address] : cluster.tasks(job)) {
        if (net::cluster_task{job, index} == task)
          own_task = static_cast<std::uint32_t>(addresses.size());
        addresses.push_back(net::parse_address(address));
      }
  if (!own_task)
    return nullptr;
  const auto workers = static_cast<std::uint32_t>(
    cluster.has("worker") ? cluster.num_tasks("worker") : 0);
  return make_injector(location,
                       {plan_scope::place::parameter_servers, {}, {}, workers},
                       addresses, *own_task);
}

} // namespace troupe::injection
