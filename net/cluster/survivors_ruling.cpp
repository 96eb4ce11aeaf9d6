#include "troupe/net/cluster/survivors_ruling.hpp"

#include <algorithm>

namespace troupe::net {

bool waits_for_ruling(std::uint64_t number,
                      std::span<const open_question> open) {
  return std::ranges::any_of(open, [number](const open_question& x) {
    return x.asker == number
           || std::ranges::find(x.asked.living, number) != x.asked.living.end();
  });
}

survivors_ruling rule_on_waiting(const survivors_question& question,
                                 std::uint64_t asker,
                                 std::span<const launched_process> all,
                                 std::span<const std::uint64_t> waiting) {
  auto out = rule_on(question, asker, all);
  if (!out.is_minority)
    return out;
  survivors_ruling decided;
  for (const auto& x : all) {
    const auto alone = rule_on(question, asker, {&x, 1});
    for (const auto number : alone.unreachable) {
      if (std::ranges::find(waiting, number) == waiting.end())
        return out;
      decided.unreachable.push_back(number);
    }
    decided.starting.insert(decided.starting.end(), alone.starting.begin(),
                            alone.starting.end());
  }
  return decided;
}

} // namespace troupe::net
