#include "troupe/net/channel.hpp"

#include <mutex>
#include <utility>

namespace troupe::net {

namespace {

using tampering = std::function<bool(std::vector<std::byte>&)>;

/// What both ends share.
struct wire {
  std::mutex lock;
  bool open = true;
  std::size_t credits[2]; ///< Left to each end.
  channel_listener ears[2];
  std::shared_ptr<tampering> tamper;
};

class loopback_end final : public channel {
public:
  loopback_end(std::shared_ptr<wire> by, int side)
    : by_{std::move(by)}, side_{side} {}
  ~loopback_end() override {
    end("the other end is gone", &channel_listener::lost);
  }

  void listen(channel_listener to) override {
    const std::lock_guard hold{by_->lock};
    by_->ears[side_] = std::move(to);
  }

  bool post(const frame& x) override {
    auto bytes = encode(x);
    std::function<void(frame &&)> heard;
    {
      const std::lock_guard hold{by_->lock};
      if (!by_->open || by_->credits[side_] == 0)
        return false;
      --by_->credits[side_];
      heard = by_->ears[1 - side_].heard;
    }
    if (*by_->tamper && !(*by_->tamper)(bytes))
      return true; // lost on the way, with its credit
    try {
      auto whole = decode(bytes);
      if (heard)
        heard(std::move(whole));
    } catch (const bad_frame& e) {
      end(e.what(), &channel_listener::broken);
    }
    return true;
  }

  void consumed() override {
    const std::lock_guard hold{by_->lock};
    ++by_->credits[1 - side_];
  }

  void close(const std::string& why) override {
    end(why, &channel_listener::lost);
  }

private:
  void end(const std::string& why,
           std::function<void(const std::string&)> channel_listener::*how) {
    channel_listener gone[2]; // let go of outside the lock
    {
      const std::lock_guard hold{by_->lock};
      if (!std::exchange(by_->open, false))
        return;
      std::swap(gone[0], by_->ears[0]);
      std::swap(gone[1], by_->ears[1]);
    }
    if (const auto& tell = gone[1 - side_].*how)
      tell(why);
  }

  std::shared_ptr<wire> by_;
  int side_;
};

} // namespace

loopback make_loopback(std::size_t credits) {
  auto by = std::make_shared<wire>();
  by->credits[0] = by->credits[1] = credits;
  by->tamper = std::make_shared<tampering>();
  return {std::make_shared<loopback_end>(by, 0),
          std::make_shared<loopback_end>(by, 1), by->tamper};
}

} // namespace troupe::net
