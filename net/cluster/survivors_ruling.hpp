#pragma once

#include "troupe/net/cluster/survivors_question.hpp"

#include <cstdint>
#include <span>

namespace troupe::net {

/// A question that has no answer yet.
struct open_question {
  std::uint64_t asker = 0; ///< Number of the process that has asked.
  survivors_question asked;
};

/// True if a process has asked, or is named by another one that has. A process
/// that has asked takes part in no view change before the launcher has decided.
/// One that is named is connected to one that lacks a majority.
bool waits_for_ruling(std::uint64_t number,
                      std::span<const open_question> open);

/// Decides as `rule_on`. But more may live than the question names, while all
/// of these wait for the launcher too. Then none of them can have a majority,
/// and they are ended. So the question that is decided first decides for all.
/// @param waiting numbers of processes that wait, or that are stopped.
survivors_ruling rule_on_waiting(const survivors_question& question,
                                 std::uint64_t asker,
                                 std::span<const launched_process> all,
                                 std::span<const std::uint64_t> waiting);

} // namespace troupe::net
