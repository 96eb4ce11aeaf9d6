#include "troupe/actors/membership/peers/membership_log.hpp"

#include "troupe/actors/core/close_code.hpp"

namespace troupe {

void membership_log::info(const std::string& line) const {
  if (options_.log)
    options_.log(net::severity::info, line);
}

void membership_log::warn(const std::string& line) const {
  if (options_.log)
    options_.log(net::severity::warning, line);
}

void membership_log::note(const flight_event& event) const {
  record_event(options_.peers->recorder, event);
}

void membership_log::note_connected(std::uint32_t task,
                                    std::uint64_t incarnation) const {
  const auto before = options_.peers->entries[task].incarnation;
  note({.kind = before == 0 || before == incarnation
                  ? flight_event_kind::connected
                  : flight_event_kind::process_restarted,
        .process = task});
}

void membership_log::note_lost(std::uint32_t task, net::close_reason cause,
                               const std::string& reason) const {
  note(
    {.kind = flight_event_kind::disconnected, .process = task, .text = reason});
  if (close_code(cause) == ec::unreachable)
    note({.kind = flight_event_kind::process_unreachable, .process = task});
}

void membership_log::note_dead(std::uint64_t incarnation) const {
  const auto& entries = options_.peers->entries;
  for (std::uint32_t task = 0; task < entries.size(); ++task)
    if (entries[task].incarnation == incarnation)
      note({.kind = flight_event_kind::process_dead, .process = task});
}

void membership_log::note_installed(const membership::view& next) const {
  const auto& all_names = options_.processes.names;
  std::string names;
  for (const auto& x : next.members)
    names += (names.empty() ? "" : ", ") + all_names[x.task];
  note({.kind = flight_event_kind::view_agreed,
        .view = next.view_id,
        .text = names});
  const auto& before = options_.peers->view;
  for (const auto& x : before.members)
    if (!next.find(x.task) && x.task != options_.self.task)
      note({.kind = options_.peers->entries[x.task].has_left
                      ? flight_event_kind::process_left
                      : flight_event_kind::process_lost,
            .view = next.view_id,
            .process = x.task});
  if (before.view_id == 0 || before.view_id == next.view_id)
    return;
  for (const auto& x : next.members)
    if (!before.contains(x.task, x.incarnation))
      note({.kind = flight_event_kind::process_joined,
            .view = next.view_id,
            .process = x.task});
}

} // namespace troupe
