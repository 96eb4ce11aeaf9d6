#pragma once

#include "troupe/actors/remoting/transfer_lane.hpp"
#include "troupe/training/strategies/state_transfer/state_item.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// How long a process follows the updates of a member.
struct follow_intervals {
  /// The member may make steps while the process takes the values. So it has
  /// caught up only if no step follows them for this time.
  std::chrono::milliseconds quiet{3};
  /// A process that updates hardly faster than the members train has caught up
  /// if few steps wait this time after the values. Few are a third of those
  /// that can wait at the source, at least 1 and at most 3.
  std::chrono::milliseconds min{300};
  /// If more steps wait this time after the values, and after `min_steps` steps
  /// for each of those few, the process does not catch up.
  std::chrono::milliseconds max{600};
  std::uint64_t min_steps = 6;
};

/// Copies the state of a model from a member of the job, and follows its
/// updates, in a process that is going to join (state_source.hpp).
class state_follower {
public:
  /// Where the items are applied.
  struct target {
    /// Parameters, then slots: [n] float32 each. They are overwritten.
    std::vector<tensor> state;
    /// Makes a part of an update: of the elements from `first` on.
    std::function<void(const state_item& step, std::uint64_t first,
                       std::span<const float> sums)>
      update;
  };

  state_follower(std::unique_ptr<transfer_lane> lane, target into,
                 const follow_intervals& how_long = {});

  enum class result : std::uint8_t {
    caught_up, ///< No step waits at the source, or few; see `follow_intervals`.
    behind,    ///< This process does not catch up; see `follow_intervals`.
    ended,     ///< The source has ended the call, or gives up; see `reason`.
    failed,    ///< The lane has ended, or an item is wrong; see `reason`.
    silent,    ///< Nothing has arrived in time.
  };
  /// Receives items until this process has caught up with the source.
  /// @param timeout longest wait for the next packet.
  result follow(std::chrono::milliseconds timeout);
  /// Receives items until the model has made this number of steps, or the
  /// source has paused before it has made them.
  result follow_to(std::uint64_t steps, std::chrono::milliseconds timeout);

  /// Where the source was when it had the state that `target::state` has now.
  struct position {
    std::uint64_t call = 0;
    std::uint64_t steps = 0;
  };
  /// None: the state is not complete, or a step is made in part.
  const std::optional<position>& current() const { return position_; }
  const std::string& reason() const { return reason_; }
  std::uint64_t bytes() const { return bytes_; } ///< Bytes that have arrived.

private:
  template <class Done, class Behind>
  result receive_until(std::chrono::milliseconds timeout,
                       std::chrono::milliseconds quiet, Done&& is_done,
                       Behind&& is_behind);
  void take(const tensors& transfer);
  void take_values(const state_item& x);
  void take_sums(const state_item& x);
  void fail(std::string reason);

  std::unique_ptr<transfer_lane> lane_;
  target into_;
  const follow_intervals intervals_;
  std::optional<position> position_;
  /// Where the next part has to begin.
  std::uint32_t next_tensor_ = 0;
  std::uint64_t next_first_ = 0;
  /// Examples and rate of the step that is made in parts.
  std::uint64_t examples_ = 0;
  double learning_rate_ = 0;
  std::uint64_t steps_ = 0; ///< Steps of the last complete item.
  std::uint64_t call_ = 0;
  bool has_values_ = false;
  std::uint64_t followed_ = 0; ///< Steps that have followed the values.
  std::chrono::steady_clock::time_point values_taken_;
  std::uint64_t waiting_ = 0; ///< As the last item says.
  bool paused_ = false, ended_ = false, failed_ = false;
  std::string reason_;
  std::uint64_t bytes_ = 0;
};

} // namespace troupe
