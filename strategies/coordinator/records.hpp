#pragma once

#include "troupe/strategies/coordinator/messages.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

// What a coordinator records for its next life. The host keeps the records
// where they survive the coordinator. These structs are effects of the state
// machine; the host performs one by making it durable. What a record says holds
// for all lives: each closure has at most one recorded end.

namespace troupe::coordinator {

/// A closure has ended. The result travels beside `end`.
struct record_end {
  ended end; ///< As the worker has sent it.
  payload result;
  auto fields() { return std::tie(end); }
};

/// A closure has thrown, and nothing is executed any more. The error travels
/// beside the numbers.
struct record_error {
  std::uint64_t ordinal = 0; ///< The closure that has thrown.
  /// Number of closures that were scheduled. Those below it that have not ended
  /// are cancelled, if no error before has cancelled them.
  std::uint64_t scheduled = 0;
  payload error;
  auto fields() { return std::tie(ordinal, scheduled); }
};

/// The program will not schedule closures below this number again.
struct forget_records {
  std::uint64_t below = 0;
  auto fields() { return std::tie(below); }
};

/// All records of the lives of a coordinator.
struct records {
  /// The program goes on with this closure. There are no records below it.
  std::uint64_t first = 0;
  std::map<std::uint64_t, record_end> ends;     ///< By ordinal.
  std::map<std::uint64_t, record_error> errors; ///< By `scheduled`.

  void add(record_end one) {
    ends.try_emplace(one.end.execution.ordinal, std::move(one));
  }
  void add(record_error one) {
    errors.try_emplace(one.scheduled, std::move(one));
  }
  void add(const forget_records& one) {
    first = std::max(first, one.below);
    ends.erase(ends.begin(), ends.lower_bound(first));
    errors.erase(errors.begin(), errors.upper_bound(first));
  }
};

} // namespace troupe::coordinator
