#include "troupe/actors/control/chief.hpp"
#include "troupe/actors/protocol/type_ids.hpp"

#include <algorithm>
#include <span>

// Notifications to the callers of `run`, in this process and in others.

namespace troupe {

ec code_of(commit::cause x) {
  switch (x) {
    case commit::cause::stalled:
      return ec::stalled;
    case commit::cause::lost:
      return ec::peer_lost;
    case commit::cause::unreachable:
      return ec::unreachable;
    case commit::cause::protocol:
      return ec::protocol;
    case commit::cause::invalid:
      break;
  }
  return ec::invalid;
}

chief_state::~chief_state() {
  for (const auto& to : cast.callers) // no caller waits for a dead chief
    if (to.here)
      to.here->no_more(ec::cancelled, chief_is_gone);
}

template <class Message>
void chief_state::tell(std::uint32_t process, const Message& x) {
  if (const auto& to = cast.callers[process].there)
    out.send({party::role::steward, process}, to, subject::news, book->epoch(),
             0, x);
}

void chief_state::tell_commit(commit_record&& x) {
  bool elsewhere = false;
  for (const auto& to : cast.callers) {
    elsewhere |= static_cast<bool>(to.there);
    if (to.here)
      to.here->committed(run, commit_record{x});
  }
  if (!elsewhere)
    return;
  unsent.push_back(std::move(x));
  if (unsent.size() >= commit::at_once(options.lease)) {
    flush();
  } else if (!flushing) {
    flushing = true;
    self->delayed_send(self, longest_in_company, atom::flush_v);
  }
}

void chief_state::flush() {
  // A record lists all replicas, and the size of a frame is limited.
  const auto most = max_batch_elements / (options.replicas + 8u) + 1;
  for (auto left = std::span{unsent}; !left.empty();) {
    const auto some = left.first(std::min<std::size_t>(most, left.size()));
    left = left.subspan(some.size());
    const run_commits all{run, {some.begin(), some.end()}};
    for (std::uint32_t p = 0; p < cast.callers.size(); ++p)
      tell(p, all);
  }
  unsent.clear();
}

void chief_state::tell_end(std::uint64_t next) {
  flush();
  // this process last: its caller may destroy the group immediately
  for (auto p = static_cast<std::uint32_t>(cast.callers.size()); p-- > 0;)
    if (const auto& to = cast.callers[p]; to.here)
      to.here->ended(run, next);
    else
      tell(p, run_ended{run, next});
}

void chief_state::tell_failure(std::uint32_t process, std::uint64_t of_run,
                               ec code, const std::string& why) {
  if (const auto& to = cast.callers[process]; to.here)
    to.here->given_up(of_run, code, std::string{why});
  else
    tell(process, run_failed{of_run, code, why});
}

} // namespace troupe
