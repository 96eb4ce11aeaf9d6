#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace troupe {

/// A job that comes from a seed, has faults, and checks itself.
class checked_job {
public:
  checked_job(const checked_job&) = delete;
  checked_job& operator=(const checked_job&) = delete;
  virtual ~checked_job() = default;

  /// Runs the job. Call it once.
  /// @returns what is wrong. Empty: nothing.
  virtual std::string run() = 0;

  /// How often each fault, and each other event, took place.
  const std::map<std::string_view, std::uint64_t>& counts() const {
    return counts_;
  }
  /// Pairs of a fault and the state of the process that it met.
  const std::set<std::string>& reached() const { return reached_; }

protected:
  checked_job() = default;

  /// @param event text that is never freed.
  void count(std::string_view event, std::uint64_t times = 1) {
    counts_[event] += times;
  }
  void reach(std::string pair) { reached_.insert(std::move(pair)); }

private:
  std::map<std::string_view, std::uint64_t> counts_;
  std::set<std::string> reached_;
};

} // namespace troupe
