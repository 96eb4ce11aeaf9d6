#include "troupe/tests/support/loopback_channel.hpp"

#include "troupe/net/codec/frame_decoder.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace troupe::net {

namespace {

std::size_t index(priority x) {
  return static_cast<std::size_t>(x);
}

} // namespace

/// State that both ends of the channel share.
class loopback_channel::wire {
public:
  explicit wire(const loopback_options& options)
    : options_{options},
      directions_{direction{options.limits}, direction{options.limits}} {}

  void set_listener(side listening_side,
                    std::shared_ptr<channel_listener> listener) {
    std::unique_lock hold{lock_};
    if (open_) {
      directions_[1 - listening_side].listener = std::move(listener);
      return;
    }
    hold.unlock(); // the state does not change any more
    listener->on_closed(close_state_.first, close_state_.second);
  }

  bool post(side sender, frame&& outgoing) {
    std::unique_lock hold{lock_};
    auto& path = directions_[sender];
    auto& used = path.used_credits[index(outgoing.priority)];
    if (!open_ || closing_ || used == credits(outgoing.priority))
      return false;
    ++used;
    path.queues[index(outgoing.priority)].push_back(
      {to_bytes(outgoing), outgoing.priority});
    const auto listener = post_listener_;
    hold.unlock();
    if (listener)
      listener();
    return true;
  }

  bool has_ended() const {
    const std::lock_guard hold{lock_};
    return !open_ || closing_;
  }

  void consumed(side receiver, priority frame_priority) {
    const std::lock_guard hold{lock_};
    return_credit(directions_[1 - receiver], frame_priority);
  }

  /// Ends the channel after the frames that were posted before have arrived.
  void close(const std::string& reason) {
    const std::lock_guard hold{lock_};
    if (!closing_)
      closing_ = reason;
  }

  void end_if_closing() {
    std::unique_lock hold{lock_};
    if (const auto reason = closing_; reason && open_) {
      hold.unlock();
      close_with(close_reason::closed, *reason);
    }
  }

  void set_fault_hook(fault_hook hook) {
    const std::lock_guard hold{lock_};
    fault_hook_ = std::move(hook);
  }

  void set_post_listener(std::function<void()> listener) {
    const std::lock_guard hold{lock_};
    post_listener_ = std::move(listener);
  }

  bool deliver_one(side sender) {
    std::vector<frame> frames;
    std::shared_ptr<channel_listener> listener;
    std::optional<std::pair<close_reason, std::string>> end_state;
    {
      const std::lock_guard hold{lock_};
      auto next = open_ ? next_frame(sender) : std::nullopt;
      if (!next)
        return false;
      listener = directions_[sender].listener;
      end_state = decode(directions_[sender], *next, frames);
    }
    for (auto& x : frames)
      if (listener)
        listener->on_frame(std::move(x));
    if (end_state)
      close_with(end_state->first, end_state->second);
    return true;
  }

  void close_with(close_reason cause, const std::string& reason) {
    std::shared_ptr<channel_listener>
      listeners[2]; // notified after the mutex is released
    {
      const std::lock_guard hold{lock_};
      if (!std::exchange(open_, false))
        return;
      close_state_ = {cause, reason};
      for (std::size_t i = 0; i < 2; ++i)
        listeners[i] = std::move(directions_[i].listener);
    }
    for (const auto& x : listeners)
      if (x)
        x->on_closed(cause, reason);
  }

  const frame_limits& limits() const { return options_.limits; }
  std::size_t credits(priority x) const {
    return x == priority::control ? options_.control : options_.bulk;
  }

private:
  struct queued_frame {
    std::vector<std::byte> bytes;
    net::priority priority;
    unsigned copies = 1;
    unsigned overtaken_by = 0;
    bool cut = false;
  };
  /// Frames from one side to the other.
  struct direction {
    explicit direction(const frame_limits& limits) : decoder{limits} {}

    std::deque<queued_frame> queues[2]; ///< By priority.
    std::deque<queued_frame> delayed;   ///< Frames that later frames overtake.
    std::size_t used_credits[2] = {0, 0}; ///< By priority.
    frame_decoder decoder;
    std::shared_ptr<channel_listener> listener;
  };

  static void return_credit(direction& path, priority frame_priority) {
    auto& used = path.used_credits[index(frame_priority)];
    used -= used > 0; // a frame that is delivered twice is consumed twice
  }

  /// Returns the next frame that arrives. Skips lost frames, and delayed frames
  /// that are not due.
  std::optional<queued_frame> next_frame(side sender) {
    auto& path = directions_[sender];
    for (;;) {
      const auto due =
        std::find_if(path.delayed.begin(), path.delayed.end(),
                     [](auto& x) { return x.overtaken_by == 0; });
      auto* queue = &path.queues[0];
      if (due != path.delayed.end())
        return extract(path.delayed, due);
      if (queue->empty())
        queue = &path.queues[1];
      if (queue->empty())
        return path.delayed.empty()
                 ? std::nullopt
                 : std::optional{extract(path.delayed, path.delayed.begin())};
      auto next = extract(*queue, queue->begin());
      if (fault_hook_) {
        const auto fault = fault_hook_(sender, next.bytes);
        next.copies = fault.copies, next.overtaken_by = fault.overtaken_by,
        next.cut = fault.cut;
      }
      if (next.copies == 0)
        return_credit(path, next.priority);
      else if (next.overtaken_by > 0)
        path.delayed.push_back(std::move(next));
      else
        return after_overtaking(path, std::move(next));
    }
  }

  static queued_frame after_overtaking(direction& path,
                                       queued_frame&& passing) {
    for (auto& other : path.delayed)
      --other.overtaken_by;
    return std::move(passing);
  }

  static queued_frame extract(std::deque<queued_frame>& queue,
                              std::deque<queued_frame>::iterator position) {
    auto extracted = std::move(*position);
    queue.erase(position);
    return extracted;
  }

  /// Decodes a frame. Returns the cause and the reason if the frame ends the
  /// channel. None: the channel stays open.
  std::optional<std::pair<close_reason, std::string>>
  decode(direction& path, const queued_frame& arrived,
         std::vector<frame>& frames) const {
    for (unsigned copy = 0; copy < arrived.copies; ++copy)
      for (std::span<const std::byte> rest{arrived.bytes}; !rest.empty();) {
        auto some = rest.first(std::min(options_.piece, rest.size()));
        rest = rest.subspan(some.size());
        while (!some.empty()) {
          auto result = path.decoder.next(some);
          if (auto* whole = std::get_if<frame>(&result))
            frames.push_back(std::move(*whole));
          if (auto* bad = std::get_if<decode_error>(&result))
            return {{close_reason::protocol_error, to_string(*bad)}};
        }
      }
    if (!arrived.cut)
      return {};
    const auto rest = path.decoder.finish();
    return {
      {close_reason::closed, rest ? to_string(*rest) : "the stream ends"}};
  }

  mutable std::mutex lock_;
  loopback_options options_;
  bool open_ = true;
  /// Valid after the channel has ended.
  std::pair<close_reason, std::string> close_state_;
  std::optional<std::string> closing_;
  fault_hook fault_hook_;
  std::function<void()> post_listener_;
  direction directions_[2]; ///< Indexed by the side that posts.
};

class loopback_channel::loopback_end final : public channel {
public:
  loopback_end(std::shared_ptr<wire> shared_wire, side end_side)
    : wire_{std::move(shared_wire)}, side_{end_side} {}

  void set_listener(std::shared_ptr<channel_listener> to) override {
    wire_->set_listener(side_, std::move(to));
  }
  bool post(frame&& x) override { return wire_->post(side_, std::move(x)); }
  bool has_ended() const override { return wire_->has_ended(); }
  void consumed(priority x) override { wire_->consumed(side_, x); }
  const frame_limits& limits() const override { return wire_->limits(); }
  std::size_t credits(priority x) const override { return wire_->credits(x); }
  void close(const std::string& reason) override { wire_->close(reason); }

private:
  std::shared_ptr<wire> wire_;
  side side_;
};

loopback_channel::loopback_channel(const loopback_options& options)
  : wire_{std::make_shared<wire>(options)},
    ends_{std::make_shared<loopback_end>(wire_, left),
          std::make_shared<loopback_end>(wire_, right)} {}

loopback_channel::~loopback_channel() {
  close_with(close_reason::closed, "the loopback channel is destroyed");
}

std::shared_ptr<channel> loopback_channel::end_of(side requested) const {
  return ends_[requested];
}

void loopback_channel::set_fault_hook(fault_hook hook) {
  wire_->set_fault_hook(std::move(hook));
}

void loopback_channel::set_post_listener(std::function<void()> listener) {
  wire_->set_post_listener(std::move(listener));
}

std::size_t loopback_channel::deliver(std::size_t max_frames) {
  std::size_t count = 0;
  for (bool moved = true; moved && count < max_frames;) {
    moved = false;
    for (const auto sender : {left, right})
      if (count < max_frames && wire_->deliver_one(sender))
        moved = true, ++count;
  }
  if (count < max_frames)
    wire_->end_if_closing();
  return count;
}

void loopback_channel::close_with(close_reason cause,
                                  const std::string& reason) {
  wire_->close_with(cause, reason);
}

} // namespace troupe::net
