#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::net {

/// A process of a job asks the launcher whether it is certain that of all
/// processes which may belong to the job only some live. Processes are given by
/// their numbers (pids), without the one that asks. The outcomes for that
/// process are those of launcher_link.hpp: going on, waiting and giving up.
struct survivors_question {
  std::vector<std::uint64_t> living;  ///< Processes that answer.
  std::vector<std::uint64_t> members; ///< All of the view.
  /// Processes that take no further part: they have left the job or given it
  /// up.
  std::vector<std::uint64_t> left;

  bool operator==(const survivors_question&) const = default;
};

/// Returns the question as words, without a line break: `living`, "/",
/// `members`, "/", `left`.
std::string to_words(const survivors_question& question);

/// Reads what `to_words` has returned. None: the text is something else.
std::optional<survivors_question>
parse_survivors_question(std::string_view words);

/// A process that the launcher has started, and that lives.
struct launched_process {
  std::uint64_t number = 0;
  bool has_begun = false; ///< It belongs to a job, and has its state.
  /// It has sent `left`: it has left its job or given it up.
  bool has_left = false;
};

/// What the launcher has to do before it can answer a question.
struct survivors_ruling {
  /// Processes to end: those that live and do not answer, and those that have
  /// not joined yet, because they could still join.
  std::vector<std::uint64_t> unreachable, starting;
  /// More live than the question names, so none of them is ended. The answer
  /// is `undecided`.
  bool is_minority = false;

  /// It is certain that only those live which the question names.
  bool is_certain() const {
    return unreachable.empty() && starting.empty() && !is_minority;
  }
};

/// Decides about a question. Of two processes that do not name each other, the
/// one whose question is decided first is not ended. @pre the launcher has
/// started all members and all other processes that may have joined.
/// @param asker number of the process that asks.
/// @param all   the processes that live, also the one that asks.
survivors_ruling rule_on(const survivors_question& question,
                         std::uint64_t asker,
                         std::span<const launched_process> all);

} // namespace troupe::net
