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

/// State that both ends share.
class loopback::wire {
public:
  explicit wire(const loopback_options& options)
    : options_{options}, ways_{way{options.limits}, way{options.limits}} {}

  void listen(side at, std::shared_ptr<link_listener> to) {
    std::unique_lock hold{lock_};
    if (open_) {
      ways_[1 - at].to = std::move(to);
      return;
    }
    hold.unlock(); // the state does not change any more
    to->ended(over_.first, over_.second);
  }

  bool post(side from, frame&& x) {
    const std::lock_guard hold{lock_};
    auto& way = ways_[from];
    auto& used = way.used[index(x.priority)];
    if (!open_ || closing_ || used == credits(x.priority))
      return false;
    ++used;
    way.queues[index(x.priority)].push_back({to_bytes(x), x.priority});
    return true;
  }

  void consumed(side by, priority x) {
    const std::lock_guard hold{lock_};
    give_back(ways_[1 - by], x);
  }

  /// Frames that were posted before still arrive.
  void close(const std::string& why) {
    const std::lock_guard hold{lock_};
    if (!closing_)
      closing_ = why;
  }

  void end_if_closing() {
    std::unique_lock hold{lock_};
    if (const auto why = closing_; why && open_) {
      hold.unlock();
      end(ending::dead, *why);
    }
  }

  void meddle(meddler how) {
    const std::lock_guard hold{lock_};
    meddler_ = std::move(how);
  }

  bool deliver_one(side from) {
    std::vector<frame> frames;
    std::shared_ptr<link_listener> to;
    std::optional<std::pair<ending, std::string>> over;
    {
      const std::lock_guard hold{lock_};
      auto next = open_ ? take(from) : std::nullopt;
      if (!next)
        return false;
      to = ways_[from].to;
      over = feed(ways_[from], *next, frames);
    }
    for (auto& x : frames)
      if (to)
        to->heard(std::move(x));
    if (over)
      end(over->first, over->second);
    return true;
  }

  void end(ending how, const std::string& why) {
    std::shared_ptr<link_listener> to[2]; // notified without the mutex
    {
      const std::lock_guard hold{lock_};
      if (!std::exchange(open_, false))
        return;
      over_ = {how, why};
      for (std::size_t i = 0; i < 2; ++i)
        to[i] = std::move(ways_[i].to);
    }
    for (const auto& x : to)
      if (x)
        x->ended(how, why);
  }

  const frame_limits& limits() const { return options_.limits; }
  std::size_t credits(priority x) const {
    return x == priority::control ? options_.control : options_.bulk;
  }

private:
  struct parcel {
    std::vector<std::byte> bytes;
    net::priority priority;
    unsigned copies = 1;
    unsigned behind = 0;
    bool cut = false;
  };
  /// Frames from one side to the other.
  struct way {
    explicit way(const frame_limits& limits) : decoder{limits} {}

    std::deque<parcel> queues[2]; ///< By priority.
    std::deque<parcel> held;      ///< Delayed frames; others overtake them.
    std::size_t used[2] = {0, 0}; ///< Credits.
    frame_decoder decoder;
    std::shared_ptr<link_listener> to;
  };

  static void give_back(way& on, priority x) {
    auto& used = on.used[index(x)];
    used -= used > 0; // a duplicate is consumed twice
  }

  /// The next frame that arrives; lost and delayed frames are skipped.
  std::optional<parcel> take(side from) {
    auto& way = ways_[from];
    for (;;) {
      const auto due = std::find_if(way.held.begin(), way.held.end(),
                                    [](auto& x) { return x.behind == 0; });
      auto* queue = &way.queues[0];
      if (due != way.held.end())
        return extract(way.held, due);
      if (queue->empty())
        queue = &way.queues[1];
      if (queue->empty())
        return way.held.empty()
                 ? std::nullopt
                 : std::optional{extract(way.held, way.held.begin())};
      auto x = extract(*queue, queue->begin());
      if (meddler_) {
        const auto fate = meddler_(from, x.bytes);
        x.copies = fate.copies, x.behind = fate.behind, x.cut = fate.cut;
      }
      if (x.copies == 0)
        give_back(way, x.priority);
      else if (x.behind > 0)
        way.held.push_back(std::move(x));
      else
        return passed(way, std::move(x));
    }
  }

  static parcel passed(way& on, parcel&& x) {
    for (auto& other : on.held)
      --other.behind;
    return std::move(x);
  }

  static parcel extract(std::deque<parcel>& from,
                        std::deque<parcel>::iterator at) {
    auto x = std::move(*at);
    from.erase(at);
    return x;
  }

  /// @returns the cause and the reason if the channel ends by it.
  std::optional<std::pair<ending, std::string>>
  feed(way& on, const parcel& x, std::vector<frame>& frames) const {
    for (unsigned copy = 0; copy < x.copies; ++copy)
      for (std::span<const std::byte> rest{x.bytes}; !rest.empty();) {
        auto some = rest.first(std::min(options_.piece, rest.size()));
        rest = rest.subspan(some.size());
        while (!some.empty()) {
          auto result = on.decoder.next(some);
          if (auto* whole = std::get_if<frame>(&result))
            frames.push_back(std::move(*whole));
          if (auto* bad = std::get_if<malformed>(&result))
            return {{ending::broken, to_string(*bad)}};
        }
      }
    if (!x.cut)
      return {};
    const auto rest = on.decoder.finish();
    return {{ending::dead, rest ? to_string(*rest) : "the stream ends"}};
  }

  std::mutex lock_;
  loopback_options options_;
  bool open_ = true;
  std::pair<ending, std::string> over_; ///< Valid once the channel is not open.
  std::optional<std::string> closing_;
  meddler meddler_;
  way ways_[2]; ///< By the side that posts.
};

class loopback::link_end final : public link {
public:
  link_end(std::shared_ptr<wire> by, side at) : by_{std::move(by)}, at_{at} {}

  void listen(std::shared_ptr<link_listener> to) override {
    by_->listen(at_, std::move(to));
  }
  bool post(frame&& x) override { return by_->post(at_, std::move(x)); }
  void consumed(priority x) override { by_->consumed(at_, x); }
  const frame_limits& limits() const override { return by_->limits(); }
  std::size_t credits(priority x) const override { return by_->credits(x); }
  void close(const std::string& why) override { by_->close(why); }

private:
  std::shared_ptr<wire> by_;
  side at_;
};

loopback::loopback(const loopback_options& options)
  : wire_{std::make_shared<wire>(options)},
    ends_{std::make_shared<link_end>(wire_, left),
          std::make_shared<link_end>(wire_, right)} {}

loopback::~loopback() {
  end(ending::dead, "the loopback channel is destroyed");
}

std::shared_ptr<link> loopback::end_of(side x) const {
  return ends_[x];
}

void loopback::meddle(meddler how) {
  wire_->meddle(std::move(how));
}

std::size_t loopback::deliver(std::size_t most) {
  std::size_t count = 0;
  for (bool moved = true; moved && count < most;) {
    moved = false;
    for (const auto from : {left, right})
      if (count < most && wire_->deliver_one(from))
        moved = true, ++count;
  }
  if (count < most)
    wire_->end_if_closing();
  return count;
}

void loopback::end(ending how, const std::string& why) {
  wire_->end(how, why);
}

} // namespace troupe::net
