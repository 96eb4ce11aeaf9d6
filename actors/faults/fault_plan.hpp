#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

// A plan of the faults that are injected into a job: in the simulator, or over
// processes. docs/simulation.md lists which faults run where.

namespace troupe::injection {

/// Logical replica that a fault applies to.
struct replica {
  std::uint32_t id = 0;
};

/// Process that a fault applies to: its task number in the job. In a job with
/// parameter servers, the chief is process 0; the workers follow, and then the
/// servers.
struct process {
  std::uint32_t id = 0;
};

/// Step in which a fault occurs.
struct at_step {
  std::uint64_t step = 0; ///< Step number, from 0.
  friend bool operator==(const at_step&, const at_step&) = default;
};

/// Message at which a fault occurs, counted among the messages and packets that
/// the process sends. Those of a parameter server are its answers.
struct at_message {
  std::uint64_t number = 1; ///< Number, from 1.
  friend bool operator==(const at_message&, const at_message&) = default;
};

/// Packet to another process at which a fault occurs, counted among those that
/// the process sends.
struct at_packet {
  std::uint64_t number = 1; ///< Number, from 1.
  friend bool operator==(const at_packet&, const at_packet&) = default;
};

/// Time at which a fault occurs, since the process began to join its job.
struct at_time {
  std::chrono::nanoseconds time{0};
  friend bool operator==(const at_time&, const at_time&) = default;
};

/// When a fault occurs, once.
using trigger = std::variant<at_step, at_message, at_packet, at_time>;

/// Kinds of faults. docs/formats.md describes each.
enum class fault_kind : std::uint8_t {
  kill,
  stop,
  disconnect,
  cut,
  partition,
  clog,
  slow,
  drop,
  duplicate,
  corrupt,
  delay,
};

/// One fault of a plan. Which members have a meaning depends on the kind.
struct fault {
  fault_kind kind = fault_kind::kill;
  std::optional<std::uint32_t> process{}; ///< None: of all processes.
  std::optional<std::uint32_t> replica{}; ///< None: of all roles.
  std::optional<std::uint32_t> peer{};    ///< Other process of a `cut`.
  std::optional<trigger> when{};          ///< None: there is a probability.
  /// Probability for each message. None: there is a trigger.
  std::optional<double> probability{};
  /// Duration of a `stop`, duration in each step of a `slow`, maximum duration
  /// of a `delay`.
  std::chrono::nanoseconds duration{0};
  std::uint64_t steps = 0; ///< Steps of a `slow`. Zero: all later steps.
  double factor = 1;       ///< Slowdown of messages by a `clog`.

  /// True if the kind is that of single messages.
  bool is_of_messages() const { return kind >= fault_kind::drop; }

  friend bool operator==(const fault&, const fault&) = default;
};

/// Returns the name of a kind, such as "kill".
const char* to_string(fault_kind kind);

/// Describes a fault: "kill of process 1 at step 20".
std::string to_string(const fault& of);

/// Describes the faults that may occur. A probability is applied to each
/// message independently. A fault with a trigger occurs once.
///
/// In the simulator, a fault that is set for a step is scheduled by the first
/// message of that step or a later one. The sender of this message is the
/// replica of the fault, or a replica of its process. The fault occurs after 0
/// to 12 further messages of the job. Over processes, it occurs at the first
/// such message.
///
///   faults{}.kill(replica{2}, at_step{17}).drop(replica{0}, 0.01).delay(0.1)
///
/// All functions throw std::invalid_argument for a value out of its range.
class faults {
public:
  using duration = std::chrono::nanoseconds;

  /// Kills the replica's actor in the step. Simulator only.
  faults& kill(replica target, at_step when);
  /// Kills the process (SIGKILL). Over processes only.
  faults& kill(process target, const trigger& when);

  /// Stops the process (SIGSTOP), and continues it after the duration. Over
  /// processes only.
  /// @param time from 1 ms to 1 hour.
  faults& stop(process target, const trigger& when, duration time);

  /// Drops messages of all roles, or only messages to and from one replica.
  /// @param probability in [0, 1].
  faults& drop(double probability);
  faults& drop(replica target, double probability);
  /// Drops one message of the process. Over processes only.
  faults& drop(process target, const trigger& when);

  /// Delivers messages twice: messages of all roles, or only messages to and
  /// from one replica.
  /// @param probability in [0, 1].
  faults& duplicate(double probability);
  faults& duplicate(replica target, double probability);
  /// Delivers one message of the process twice. Over processes only.
  faults& duplicate(process target, const trigger& when);

  /// Changes a byte in the header of each packet with the probability, or of
  /// one packet. Over processes only.
  faults& corrupt(double probability);
  faults& corrupt(process target, const trigger& when);

  /// Delays messages by up to `max_delay`: messages of all roles, or only
  /// messages to and from one replica. A message that is sent later can arrive
  /// first; a lane keeps the order of its packets.
  /// @param probability in [0, 1].
  /// @param max_delay   from 1 ns to 1 hour.
  faults& delay(double probability,
                duration max_delay = std::chrono::milliseconds{100});
  faults& delay(replica target, double probability,
                duration max_delay = std::chrono::milliseconds{100});
  /// Delays one message of the process. Over processes only.
  faults& delay(process target, const trigger& when,
                duration max_delay = std::chrono::milliseconds{100});

  /// Closes all connections of a process to other processes of its job. Both
  /// sides of each connection are notified.
  faults& disconnect(process target, const trigger& when);

  /// Closes all connections between two processes. The one that has dialed the
  /// other counts its steps, messages and packets: it has the higher number, or
  /// with parameter servers the lower one. Over processes only.
  faults& cut(process target, process peer, const trigger& when);

  /// Stops all traffic of a process from the step on. Neither side of a
  /// connection is notified. Simulator only.
  faults& partition(process target, at_step when);

  /// Makes all messages to and from a process take `factor` times as long,
  /// from the step on. Simulator only.
  /// @param factor in [1, 1e9].
  faults& clog(process target, at_step when, double factor);

  /// Lets the replicas of a process wait in each step from the trigger on. Over
  /// processes only.
  /// @param time  duration in each step, from 1 ns to 1 hour.
  /// @param steps number of steps. Zero: all later ones.
  faults& slow(process target, const trigger& when, duration time,
               std::uint64_t steps = 0);

  /// Adds a fault that is described by its members.
  faults& add(const fault& one);

  /// Sets the seed of all draws. The simulator's caller gives a seed of its
  /// own.
  faults& with_seed(std::uint64_t seed) {
    seed_ = seed;
    return *this;
  }
  std::uint64_t seed() const { return seed_; }
  const std::vector<fault>& list() const { return list_; }

  friend bool operator==(const faults&, const faults&) = default;

private:
  std::vector<fault> list_;
  std::uint64_t seed_ = 0;
};

/// Where a plan runs.
struct plan_scope {
  enum class place : std::uint8_t {
    simulator,
    processes,
    parameter_servers, ///< Processes of a job with parameter servers.
  } where;
  /// Number of processes and replicas of the job. None: it is not known.
  std::optional<std::uint32_t> processes{}, replicas{};
  /// Number of workers of a job with parameter servers: the processes from 1
  /// on. Those after them are the servers.
  std::uint32_t workers = 0;
};

/// Returns the scope of a job with parameter servers.
inline plan_scope scope_with_servers(std::uint32_t workers,
                                     std::uint32_t servers) {
  return {
    plan_scope::place::parameter_servers, 1 + workers + servers, {}, workers};
}

/// Returns what is wrong with a plan in a place: "faults[1].process is 7; the
/// job has the processes 0 to 2". None: all its faults can occur there.
std::optional<std::string> problem_of(const faults& plan,
                                      const plan_scope& scope);

/// Returns what is wrong with a fault by itself. The text begins with the key
/// of the JSON form: "probability is 2; give a number from 0 to 1". None:
/// nothing.
std::optional<std::string> problem_of(const fault& one);

} // namespace troupe::injection
