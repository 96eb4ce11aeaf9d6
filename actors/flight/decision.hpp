#pragma once

#include "troupe/actors/flight/flight_recorder.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace troupe {

/// Part of a decision, such as "replicas stopped".
struct decision_phase {
  std::string name;
  std::uint64_t duration_us = 0; ///< Time since the phase before.
  std::uint64_t bytes = 0;       ///< Bytes that were copied. Zero: none.
  auto fields() { return std::tie(name, duration_us, bytes); }
  friend bool operator==(const decision_phase&,
                         const decision_phase&) = default;
};

/// What a process did because processes of its job were lost, have left or have
/// joined, or which processes it lost and found.
struct decision {
  /// Sentence, such as "view 2 begins: worker 2 was lost: ...".
  std::string text;
  std::int64_t time_ns = 0; ///< As `flight_event::time_ns`.
  std::uint64_t ago_ms = 0; ///< Time since then when the status was made.
  /// False: a view change that has begun and has not ended.
  bool complete = true;
  std::vector<decision_phase> phases; ///< Phases of a view change, in order.
  auto fields() { return std::tie(text, time_ns, ago_ms, complete, phases); }
  friend bool operator==(const decision&, const decision&) = default;
};

/// Returns the last decisions that the events of a process show, oldest first.
/// @param identity names the processes of the events.
/// @param now_ns   time of `ago_ms`.
std::vector<decision> decisions_of(std::span<const flight_event> events,
                                   const flight_identity& identity,
                                   std::int64_t now_ns,
                                   std::size_t max_decisions = 8);

/// Returns a line for people, without a line end: "1.204 s ago: view 2 begins:
/// ...; replicas stopped 12.1 ms, ...".
std::string to_text(const decision& x);

/// Returns a duration as "12.1 ms".
std::string milliseconds_text(std::uint64_t duration_us);

} // namespace troupe
