#include "troupe/actors/membership/view_changes/launcher_questions.hpp"

#include <utility>

namespace troupe {

namespace {

/// Time in which the launcher answers a question. It needs less, unless it is
/// stopped.
constexpr std::chrono::seconds answer_timeout{15};

} // namespace

std::optional<membership_event::survivors_asked>
launcher_questions::ask(const std::vector<std::uint32_t>& silent_tasks,
                        caf::timespan now, const member_lookup& lookup) {
  if (!options_.launcher)
    return {};
  const auto& table = *options_.peers;
  net::survivors_question question;
  membership_event::survivors_asked asked;
  for (const auto& x : table.view.members) {
    if (x.incarnation == options_.self.incarnation)
      continue;
    const view_change::process_id process{x.task, x.incarnation};
    const auto known = lookup(process);
    if (!known.number)
      return {};
    question.members.push_back(*known.number);
    const auto& entry = table.entries[x.task];
    if (entry.incarnation == x.incarnation && entry.has_left) {
      question.left.push_back(*known.number);
    } else if (known.is_reachable) {
      question.living.push_back(*known.number);
      asked.living.push_back(process);
    }
  }
  open_question_ = options_.launcher->ask(question);
  asked.view_id = table.view.view_id;
  asked.question = open_question_;
  asked.deadline = now + answer_timeout;
  asked.silent_tasks = silent_tasks;
  return asked;
}

launcher_questions::answer
launcher_questions::look_for_answer(const membership_event::survivors_asked& x,
                                    caf::timespan now) {
  if (x.question != open_question_)
    return answer::outdated;
  const auto found = options_.launcher->answer_to(x.question);
  if (!found && now < x.deadline)
    return answer::awaited;
  open_question_ = 0;
  return found && *found ? answer::certain : answer::uncertain;
}

void launcher_questions::withdraw() {
  if (std::exchange(open_question_, 0) > 0)
    options_.launcher->withdraw();
}

} // namespace troupe
