#pragma once

#include "troupe/net/cluster/survivors_question.hpp"

#include <cstdint>

namespace troupe {

/// The parent that has started processes of a job, as one of them sees it: it
/// knows which of them live, and can end them. Numbers of processes are pids.
/// No function waits.
class witness {
public:
  virtual ~witness() = default;
  /// Reports a process that does not answer. The parent ends it.
  virtual void report_unreachable(std::uint64_t number) = 0;
  /// Reports a process that asks this one to join, before it can join.
  /// @param number zero: it is on another host.
  /// @returns false if the parent does not learn it, so it must not join.
  virtual bool report_candidate(std::uint64_t number) = 0;
  /// Asks whether it is certain that only some of the processes live.
  virtual void ask(const net::survivors_question& question) = 0;
  /// Number of the last question that was answered with yes. Zero: none.
  virtual std::uint64_t last_confirmed() = 0;
};

} // namespace troupe
