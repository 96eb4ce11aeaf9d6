#pragma once

#include "troupe/actors/membership/peers/membership_internal_actor.hpp"
#include "troupe/actors/membership/peers/membership_options.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace troupe {

/// Asks the launcher of the job which processes live, when the members that
/// answer are too few to agree on a view. One question is open at a time.
class launcher_questions {
public:
  enum class answer {
    outdated, ///< Another question was asked, or none is open.
    awaited,  ///< There is no answer yet: look for it again.
    certain,  ///< Only the processes that the question names live.
    uncertain ///< Others may live, or there was no answer in time.
  };
  /// What this process knows of another member.
  struct known_member {
    /// Its process number (pid). None: it is not on this host.
    std::optional<std::uint64_t> number;
    bool is_reachable = false; ///< Its connection is open or being made again.
  };
  using member_lookup =
    std::function<known_member(const view_change::process_id&)>;

  /// @param options must outlive this object.
  explicit launcher_questions(const membership_options& options)
    : options_{options} {}

  /// Asks whether only the members that answer live. They are fewer than half,
  /// so it is certain only if the launcher knows all processes that may belong
  /// to the job. A connection that is being made again may answer.
  /// @param now  the time of the actor's clock.
  /// @returns what to pass to `look_for_answer` after `answer_interval`. None:
  ///          there is no launcher that can know all members.
  std::optional<membership_event::survivors_asked>
  ask(const std::vector<std::uint32_t>& silent_tasks, caf::timespan now,
      const member_lookup& lookup);
  /// Interval in which the answer is to be looked for.
  static constexpr std::chrono::milliseconds answer_interval{5};
  /// Closes the question if it has an answer, or its time has passed.
  answer look_for_answer(const membership_event::survivors_asked& x,
                         caf::timespan now);
  /// The answer is not needed any more. No effect if no question is open.
  void withdraw();

private:
  const membership_options& options_;
  /// Number of the question that has no answer. Zero: none.
  std::uint64_t open_question_ = 0;
};

} // namespace troupe
