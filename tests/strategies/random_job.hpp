#pragma once

#include "troupe/tests/strategies/checked_job.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

/// A visitor of a variant: calls the function for the type that it holds.
template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

/// A protocol under random faults, in virtual time. This base class has the
/// clock and the network: messages are lost, repeated, delayed and reordered,
/// and links are cut for some time. A derived class has the processes, their
/// faults, and the oracles.
class random_job : public checked_job {
protected:
  /// Returns whether one of two sequences is the beginning of the other.
  template <class Sequence>
  static bool begin_alike(const Sequence& a, const Sequence& b) {
    return std::equal(
      a.begin(),
      a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())),
      b.begin());
  }

  /// All random draws of the job come from `seed`.
  explicit random_job(std::uint64_t seed) : random_{seed} {}

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool chance(std::uint64_t percent) { return below(100) < percent; }
  /// The job is wrong. Only the first call counts.
  void fail(const std::string& what);
  /// Counts a fault that meets a process, and notes the state of the process.
  /// @param fault text that is never freed.
  /// @param detail part of the pair, but not of the count.
  void meet(std::string_view fault, std::uint64_t process,
            std::string_view detail = {});

  void at(std::uint64_t delay, std::function<void()> action);
  /// Delivers a message some time, or never, or twice.
  void deliver(std::uint64_t sender, std::uint64_t receiver,
               std::string_view message, const std::function<void()>& action);
  /// Cuts one of these processes from all others, or one link between two of
  /// them, in one direction or both. Or divides them into two sets. After some
  /// time the links are back. What was sent meanwhile is lost, or arrives then.
  void cut_links(const std::vector<std::uint64_t>& processes);
  /// Cuts the links from some processes to others.
  void cut_links(std::set<std::uint64_t> senders,
                 std::set<std::uint64_t> receivers, std::uint64_t max_duration);
  /// From now on no message is lost, repeated or late, and no link is cut.
  void end_faults();
  void run_until(std::uint64_t end, const std::function<bool()>& done);

  /// @returns the state of a process, as the oracles see it.
  virtual std::string state_of(std::uint64_t process) const = 0;

  std::mt19937_64 random_;
  std::uint64_t now_ = 0;
  std::string problem_;
  bool has_faults_ = true;
  std::uint64_t loss_percent_ = 0, late_percent_ = 0, max_delay_ = 10;

private:
  struct cut {
    std::set<std::uint64_t> senders, receivers;
    std::uint64_t until = 0;
    bool holds = false; ///< What is sent arrives when the links are back.
  };

  void schedule(std::uint64_t sender, std::uint64_t receiver,
                std::string_view message, std::uint64_t delay,
                const std::function<void()>& action);

  std::uint64_t order_ = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::function<void()>>
    events_; ///< By time and order.
  std::vector<cut> cuts_;
  /// Latest arrival of a message, by sender and receiver.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> arrivals_;
};

} // namespace troupe
