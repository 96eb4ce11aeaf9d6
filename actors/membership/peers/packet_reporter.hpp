#pragma once

#include "troupe/actors/collectives/packet_counts.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace troupe {

/// Decides when a process reports to another one how many packets it has sent.
/// The process reports in a pause; without a pause, the next packet shows a
/// loss.
class packet_reporter {
public:
  /// Interval in which `on_interval` is to be called.
  static constexpr std::chrono::milliseconds interval{200};
  /// Number of intervals without another packet after which the numbers are
  /// reported. They are reported again after as many further ones.
  static constexpr std::uint32_t pause = 3;

  /// @param sent the numbers now.
  /// @returns the numbers, if they are to be reported now.
  std::optional<packet_report> on_interval(const packet_report& sent) {
    if (sent != last_) {
      last_ = sent;
      unchanged_ = 0;
      return {};
    }
    const bool has_sent = sent.contributions > 0 || sent.results > 0;
    if (++unchanged_ % pause == 0 && has_sent)
      return sent;
    return {};
  }

private:
  packet_report last_;
  std::uint32_t unchanged_ = 0; ///< Intervals in which nothing was sent.
};

} // namespace troupe
