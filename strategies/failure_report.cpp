#include "troupe/strategies/failure_report.hpp"

#include <algorithm>

namespace troupe {

namespace {

using id_list = std::vector<std::uint32_t>;

/// Returns true if the list contains at most `count` ids, all below `count`.
bool are_ids(const id_list& ids, std::uint32_t count) {
  return ids.size() <= count
         && std::ranges::all_of(ids, [count](auto id) { return id < count; });
}

/// Returns true if `replicas` can contain the id of a reducer, or an id that a
/// replica should not have sent.
bool may_name_others(failure_kind kind) {
  return kind == failure_kind::reducer_lost
         || kind == failure_kind::reducer_missing
         || kind == failure_kind::step_not_granted;
}

/// Returns the number of leading waits that fit into a report.
std::size_t fitting(const std::vector<role_wait>& waits) {
  std::size_t count = 0, missing = 0;
  for (const auto& wait : waits) {
    missing += wait.missing.size();
    if (count == max_waits || missing > max_missing_replicas)
      break;
    ++count;
  }
  return count;
}

void shorten(std::string& text, std::size_t max_bytes) {
  if (text.size() > max_bytes)
    text.resize(max_bytes);
}

bool is_possible(const requesting_call& call) {
  return call.name.size() <= max_call_name_bytes
         && call.failure.size() <= max_cause_bytes;
}

} // namespace

bool are_same(const requesting_call& a, const requesting_call& b) {
  return a.name == b.name && a.number == b.number;
}

std::optional<std::uint64_t> user_step_of(const requesting_call& call,
                                          std::uint64_t first,
                                          std::uint64_t step) {
  if (call.user_step == requesting_call::no_step)
    return call.name.empty() ? std::optional{step} : std::nullopt;
  return step < first ? std::nullopt
                      : std::optional{call.user_step + (step - first)};
}

std::string operation_of(const requesting_call& call) {
  return call.user_step == requesting_call::no_step ? call.name : "";
}

void use_user_steps(failure_report& report, const requesting_call& call,
                    std::uint64_t first) {
  report.operation = operation_of(call);
  for (auto* step : {&report.step, &report.expected_step})
    *step = user_step_of(call, first, *step).value_or(*step);
}

void shorten(failure_report& report) {
  for (auto* text : {&report.cause, &report.later_cause})
    shorten(*text, max_cause_bytes);
  shorten(report.operation, max_call_name_bytes);
  for (auto& x : report.requests) {
    shorten(x.call.name, max_call_name_bytes);
    shorten(x.call.failure, max_cause_bytes);
  }
  const auto count = fitting(report.waits);
  report.unlisted_waits +=
    static_cast<std::uint32_t>(report.waits.size() - count);
  report.waits.resize(count);
}

bool is_possible(const failure_report& report, std::uint32_t processes,
                 std::uint32_t replicas) {
  if (report.cause.size() > max_cause_bytes
      || report.later_cause.size() > max_cause_bytes
      || report.operation.size() > max_call_name_bytes
      || fitting(report.waits) < report.waits.size()
      || report.requests.size() > max_requests)
    return false;
  if (may_name_others(report.kind) ? report.replicas.size() > 1
                                   : !are_ids(report.replicas, replicas))
    return false;
  return are_ids(report.processes, processes)
         && are_ids(report.unresponsive, replicas)
         && are_ids(report.inside, replicas)
         && std::ranges::all_of(report.waits,
                                [=](const role_wait& x) {
                                  return (x.reducer || x.id < replicas)
                                         && are_ids(x.missing, replicas);
                                })
         && std::ranges::all_of(report.requests, [=](const requested_run& x) {
              return x.process < processes && is_possible(x.call);
            });
}

void add_failure(failure_report& report, const failure_report& later) {
  if (later.kind == failure_kind::step_failed)
    report.later_cause = later.cause;
  if (later.kind == failure_kind::peer_violation)
    report.later_cause = "a process violated the protocol: " + later.cause;
  for (const auto& wait : later.waits)
    if (std::ranges::none_of(report.waits, [&wait](const role_wait& x) {
          return x.reducer == wait.reducer && x.id == wait.id;
        }))
      report.waits.push_back(wait);
}

} // namespace troupe
