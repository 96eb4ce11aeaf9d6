#pragma once

#include "troupe/actors/membership/peers/kept_dial_result.hpp"
#include "troupe/actors/membership/peers/membership_internal_actor.hpp"
#include "troupe/actors/membership/peers/membership_log.hpp"
#include "troupe/actors/membership/peers/membership_options.hpp"

#include <caf/send.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace troupe {

/// What the parts of a membership actor share: its options, its log, its clock,
/// and the messages that it sends to itself.
class membership_context {
public:
  using pointer = membership_internal_actor::pointer;

  membership_context(pointer self, const membership_options& options);
  membership_context(const membership_context&) = delete;
  membership_context& operator=(const membership_context&) = delete;

  const membership_options& options() const { return options_; }
  const membership_log& log() const { return log_; }
  /// What this process knows of the job. Only its membership actor changes the
  /// view, the entries and the request to stop, so it may read them without the
  /// lock.
  peer_table& peers() const { return *options_.peers; }

  std::uint32_t task_count() const {
    return static_cast<std::uint32_t>(options_.processes.names.size());
  }
  const std::string& name_of(std::uint32_t task) const {
    return options_.processes.names[task];
  }
  const std::string& own_name() const { return name_of(options_.self.task); }
  /// True if this process decides when the job ends.
  bool is_leader() const { return !options_.joins && options_.self.task == 0; }
  /// True if this view is in effect in this process.
  bool is_current(std::uint64_t view_id) const;

  caf::timespan now() const { return self_->clock().now().time_since_epoch(); }
  /// Returns the rest of the start timeout.
  std::chrono::milliseconds remaining() const;

  membership_internal_actor handle() const {
    return membership_internal_actor{self_};
  }
  /// Sends the actor a message.
  template <class Event>
  void tell(Event&& event) const {
    self_->send(self_, std::forward<Event>(event));
  }
  /// Sends the actor a message after the delay.
  template <class... Ts>
  void tell_later(std::chrono::milliseconds delay, Ts&&... message) const {
    self_->delayed_send(self_, delay, std::forward<Ts>(message)...);
  }
  /// Returns a function that sends the actor an event with the result of a
  /// dial.
  /// @param event without the result.
  template <class Event>
  membership_options::dial_callback on_dialed(const Event& event) const {
    return [owner = handle(), event](net::endpoint::dial_result&& x) {
      auto complete = event;
      complete.result = keep_dial_result(std::move(x));
      caf::anon_send(owner, std::move(complete));
    };
  }

private:
  pointer self_;
  const membership_options options_;
  membership_log log_{options_};
  caf::timespan begun_;
};

} // namespace troupe
