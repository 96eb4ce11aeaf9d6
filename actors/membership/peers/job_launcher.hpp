#pragma once

#include "troupe/net/cluster/survivors_question.hpp"
#include "troupe/net/io/process_handle.hpp"

#include <cstdint>
#include <optional>

namespace troupe {

/// The launcher that has started processes of a job, as one of them sees it: it
/// knows which of them live, and can end them. No function waits.
class job_launcher {
public:
  virtual ~job_launcher() = default;
  /// Reports a process that does not answer. The launcher ends it.
  /// @param number its process number (pid).
  virtual void report_unreachable(std::uint64_t number) = 0;
  /// Reports a process that asks this one to join, before it can join.
  /// @param candidate without a number: it is on another host.
  /// @returns false if the launcher does not learn it, so it must not join.
  virtual bool report_candidate(const net::process_identity& candidate) = 0;
  /// Asks whether it is certain that only some of the processes live.
  /// @returns the number of the question.
  virtual std::uint64_t ask(const net::survivors_question& question) = 0;
  /// The answer to a question. None: there is none yet.
  virtual std::optional<bool> answer_to(std::uint64_t question) = 0;
  /// The process does not need the answer to its last question any more.
  virtual void withdraw() = 0;
};

} // namespace troupe
