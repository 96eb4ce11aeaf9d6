#pragma once

#include "troupe/strategies/step_commit/state_machine.hpp"

#include <utility>
#include <vector>

namespace troupe::commit::testing {

using ids = std::vector<std::uint32_t>;

/// Two processes of two replicas each.
inline const places two{{"chief 0", "worker 1"}, {0, 2, 4}};

/// A state machine whose effects are recorded. Its replicas have incarnation 1,
/// are configured and idle.
struct desk {
  explicit desk(std::uint32_t replicas, const places& where = {},
                std::uint64_t lease = 4)
    : replicas{replicas}, book{replicas, lease, where} {
    keep(book.open());
    seat_all();
  }

  void keep(reaction&& what) {
    for (auto& x : what)
      said.push_back(std::move(x));
  }
  void seat(std::uint32_t r) { keep(book.on(seated{book.epoch(), r, 1, 0})); }
  void seat_all() {
    for (std::uint32_t r = 0; r < replicas; ++r)
      seat(r);
  }
  void report_step(std::uint32_t r, std::uint64_t step) {
    keep(book.on(report{book.epoch(), step, r, 1, {1, double(step), 0}}));
  }
  /// All replicas report a step, and the caller acknowledges its commit.
  void commit_step(std::uint64_t step) {
    for (std::uint32_t r = 0; r < replicas; ++r)
      report_step(r, step);
    keep(book.heard(step + 1));
  }

  /// @returns the recorded effects of one type.
  template <class T>
  std::vector<T> all() const {
    std::vector<T> out;
    for (const auto& x : said)
      if (const auto* it = std::get_if<T>(&x))
        out.push_back(*it);
    return out;
  }
  template <class T>
  std::size_t count() const {
    return all<T>().size();
  }
  /// @returns the reason of the last abort; empty if there was none.
  std::string why() const {
    const auto found = all<given_up>();
    return found.empty() ? "" : found.back().why;
  }

  std::uint32_t replicas;
  ledger book;
  reaction said;
};

} // namespace troupe::commit::testing
