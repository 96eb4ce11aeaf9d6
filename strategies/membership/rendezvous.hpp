#pragma once

#include "troupe/strategies/fields.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

/// Who is in a job: one process for each task, all of one mind, before a step
/// runs. This is the leader's side, task 0.
///
///   who      P tasks; a process has an incarnation, drawn when it starts
///   says     a process: hello, with what it is and holds
///            the leader: taken, or refused with a sentence; the table, when
///            all have come
///   opens    with the leader's own terms: everybody's are compared with them
///   on hello of a free task, on the same terms   -> taken
///   on lost before the table was told   -> the task is free again
///   ends     when every task is taken (`complete`), or the patience does:
///            `missing` says who did not come
///   if       a task that nobody expects, a second process for one whose first
///            lives, another version, other kernels, threads, replicas or
///            options, a hello after the table was told   -> refused
namespace troupe::roster {

using troupe::inspect, troupe::serialize;

/// What all processes must agree on, or their bits or their words differ.
struct terms {
  std::string version;        ///< Of the program's library.
  std::string kernels;        ///< Level of the processor's instructions.
  std::uint32_t threads = 1;  ///< Of each replica.
  std::uint32_t replicas = 1; ///< Of each process.
  std::string options;        ///< Whatever else, as text.
  auto fields() {
    return std::tie(version, kernels, threads, replicas, options);
  }
};

/// What a process says of itself.
struct hello {
  std::uint32_t task = 0;
  std::uint64_t incarnation = 0;
  std::string host; ///< Where others dial it ...
  std::uint16_t port = 0;
  terms on;
  auto fields() { return std::tie(task, incarnation, host, port, on); }
};

/// One who is in.
struct member {
  std::uint64_t incarnation = 0;
  std::string host;
  std::uint16_t port = 0;
  auto fields() { return std::tie(incarnation, host, port); }
};

/// What the leader tells all when the job is complete.
struct table {
  std::uint64_t epoch = 0; ///< Of the membership.
  std::vector<member> members;
  auto fields() { return std::tie(epoch, members); }
};

struct taken {
  bool complete = false; ///< It was the last.
};
struct refused {
  std::string why; ///< A sentence for both sides.
};
using answer = std::variant<taken, refused>;

class machine {
public:
  /// @param names of the tasks, "chief 0", "worker 1"; the leader is the first,
  ///              and in.
  machine(std::vector<std::string> names, const hello& leader);

  answer on(const hello& x);

  /// A process that was taken is gone. Void once the table was told.
  void on_lost(std::uint32_t task, std::uint64_t incarnation);

  bool complete() const;

  /// The table, to be told to all: nobody comes or goes any more.
  /// @pre complete.
  table members();

  /// "worker 1", "worker 1 and worker 3": who did not come.
  std::string missing() const;

private:
  std::string unlike(const terms& x, const std::string& who) const;

  std::vector<std::string> names_;
  terms on_;
  std::vector<std::optional<member>> tasks_;
  bool told_ = false;
};

/// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>& names);

} // namespace troupe::roster
