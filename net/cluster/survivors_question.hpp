#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::net {

/// A process of a job asks the launcher whether it is certain that of all
/// processes which may belong to the job only some live. Processes are given by
/// their numbers (pids), without the one that asks.
struct survivors_question {
  std::uint64_t number = 0;           ///< Of the question, from 1 on.
  std::vector<std::uint64_t> living;  ///< Those that answer.
  std::vector<std::uint64_t> members; ///< All of the view, also `living`.

  bool operator==(const survivors_question&) const = default;
};

/// Returns the question as words, without a line break: the number, `living`,
/// "/", `members`.
std::string to_words(const survivors_question& question);

/// Reads what `to_words` has returned. None: the text is something else.
std::optional<survivors_question>
parse_survivors_question(std::string_view words);

} // namespace troupe::net
