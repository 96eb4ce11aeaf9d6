#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>

/// Decides which processes of a job are started again after a signal has ended
/// them, and when. The delays of one process double from 100 ms to 5 s, and are
/// shortened at random by up to a half. If 10 processes that were killed are
/// started again within 10 s, no further one is.
class restart_policy {
public:
  using clock = std::chrono::steady_clock;

  static constexpr std::size_t max_intensity = 10;
  static constexpr std::chrono::seconds intensity_window{10};
  static constexpr std::chrono::milliseconds first_delay{100};
  static constexpr std::chrono::milliseconds last_delay{5000};

  /// @param restarts maximum number of restarts of all processes together.
  explicit restart_policy(std::uint64_t restarts,
                          std::uint64_t seed = std::random_device{}())
    : left_{restarts}, dice_{seed} {}

  /// Whether a process is started again, and why not.
  enum class decision : std::uint8_t {
    restart,
    used_up,   ///< No restarts are left.
    too_often, ///< Too many processes were started again in a short time.
    cancelled, ///< `cancel` was called.
  };

  /// A signal has ended a process. It is started again if restarts are left.
  decision on_killed(const std::string& name, clock::time_point now);
  /// A process was killed on purpose and is needed again. It does not count as
  /// one that was killed.
  void repeat(const std::string& name, clock::time_point now);
  /// No process is started again.
  void cancel() {
    is_cancelled_ = true;
    due_.clear();
  }
  /// Returns the name of a process to start now. None: there is none.
  std::optional<std::string> take(clock::time_point now);
  /// Time of the next start. None: no start is due.
  std::optional<clock::time_point> next() const;

private:
  void schedule(const std::string& name, clock::time_point now);

  std::uint64_t left_;
  bool is_cancelled_ = false;
  std::mt19937_64 dice_;
  std::map<std::string, std::chrono::milliseconds> delays_; ///< The last ones.
  std::multimap<clock::time_point, std::string> due_;
  std::deque<clock::time_point> recent_;
};
