#include "troupe/actors/control/chief.hpp"

#include <algorithm>
#include <span>
#include <utility>

// The part of the chief that notifies the callers of `run`, in this process and
// in others.

namespace troupe {

chief_state::~chief_state() {
  for (const auto& client : roles.clients) // ends the waits of callers of `run`
    if (client.listener)
      client.listener->on_group_terminated(chief_terminated());
}

template <class Message>
void chief_state::send_to_process(std::uint32_t process,
                                  const Message& message) {
  if (const auto& client = roles.clients[process].remote)
    sender.send({role_id::kind::local_agent, process}, client,
                message_kind::notification, commits->generation(), 0, message);
}

void chief_state::notify_commit(commit_record&& record) {
  record.processed_by_chief = acknowledged.front(); // the chief is process 0
  bool has_remote = false;
  for (const auto& client : roles.clients) {
    has_remote |= static_cast<bool>(client.remote);
    if (client.listener)
      client.listener->on_committed(run, commit_record{record});
  }
  if (!has_remote)
    return;
  unsent_commits.push_back(std::move(record));
  if (!in_batch)
    send_commits();
}

/// Sends the commits, or lets them wait for others.
void chief_state::send_commits() {
  if (unsent_commits.empty())
    return;
  const auto now = self->clock().now();
  const bool is_first = unsent_commits.front().step == first_step;
  if (is_first || commit_sending.may_send(now)
      || unsent_commits.size() >= step_commit::grant_batch(options.step_window))
    flush(); // the callers wait for the first step
  else if (!std::exchange(flush_scheduled, true))
    self->delayed_send(self, commit_sending.delay(now), atom::flush_v);
}

void chief_state::flush() {
  if (!unsent_commits.empty())
    commit_sending.sent(self->clock().now());
  // The records of a message must fit into a frame. A record counts as one
  // element for each replica that it lists, and 8 for its other fields. One
  // record more than the quotient still fits, because `max_batch_elements`
  // elements fill only half of a frame.
  const auto max_records =
    max_batch_elements / (options.processes.placement.replicas() + 8u) + 1;
  for (auto left = std::span{unsent_commits}; !left.empty();) {
    const auto records =
      left.first(std::min<std::size_t>(max_records, left.size()));
    left = left.subspan(records.size());
    const commit_batch batch{run, {records.begin(), records.end()}};
    for (std::uint32_t p = 0; p < roles.clients.size(); ++p)
      send_to_process(p, batch);
  }
  unsent_commits.clear();
}

void chief_state::notify_completed(std::uint64_t next) {
  flush();
  // notify this process last, because its caller may destroy the group at once
  for (auto p = static_cast<std::uint32_t>(roles.clients.size()); p-- > 0;)
    if (const auto& client = roles.clients[p]; client.listener)
      client.listener->on_completed(run, next);
    else
      send_to_process(p, run_completed{run, next});
}

void chief_state::notify_aborted(std::uint32_t process, std::uint64_t of_run,
                                 failure_report report) {
  if (report.run == 0)
    report.run = of_run;
  if (const auto& client = roles.clients[process]; client.listener)
    client.listener->on_aborted(of_run, std::move(report));
  else
    send_to_process(process, run_aborted{of_run, std::move(report)});
}

} // namespace troupe
