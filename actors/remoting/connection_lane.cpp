#include "troupe/actors/remoting/connection_lane.hpp"

#include <algorithm>
#include <stdexcept>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace troupe {

namespace {

/// Longest wait for an event. The timeouts are checked at least this often.
constexpr std::chrono::milliseconds max_wait{500};

/// Maximum number of steps after the connection has ended.
constexpr int max_last_steps = 64;

std::string name_of(std::uint32_t channel, std::uint64_t message) {
  return "the message with tag " + std::to_string(message) + " on channel "
         + std::to_string(channel);
}

} // namespace

// -- one channel --------------------------------------------------------------

class connection_lane::channel_end final : public tensor_channel {
public:
  channel_end(std::shared_ptr<connection_lane> owner, std::uint32_t channel)
    : owner_{std::move(owner)}, channel_{channel} {}
  ~channel_end() override { owner_->close(channel_); }

  void set_listener(listener on_event) override {
    const bool posted =
      owner_->post([lane = owner_.get(), channel = channel_, on_event] {
        lane->listeners_[channel] = on_event;
        lane->lane_->receiver().open_channel(channel);
      });
    if (!posted)
      on_event(lane_ended{ec::peer_lost, "the connection has ended"});
  }

  void send(std::uint64_t message, tensors values) override {
    owner_->post([lane = owner_.get(), channel = channel_, message,
                  values = std::move(values)]() mutable {
      lane->lane_->sender().send(channel, message, std::move(values));
    });
  }

  void expect(std::uint64_t message) override {
    owner_->post([lane = owner_.get(), key = message_key{channel_, message}] {
      if (lane->early_tensors_.erase(key) == 0)
        lane->missing_tensors_.emplace(key, clock::now());
    });
  }

  void release(std::uint64_t transfer) override {
    owner_->post([lane = owner_.get(), transfer] {
      lane->lane_->receiver().release(transfer);
    });
  }

  void fail(const std::string& reason) override {
    owner_->post([lane = owner_.get(), reason] { lane->violated(reason); });
  }

  void close() override { owner_->close(channel_); }

private:
  const std::shared_ptr<connection_lane> owner_;
  const std::uint32_t channel_;
};

// -- for any thread -----------------------------------------------------------

connection_lane::connection_lane(const options& lane_options)
  : options_{lane_options}, wake_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)} {
  if (!wake_)
    throw std::runtime_error("no descriptor is left for the lane of a "
                             "connection");
}

connection_lane::~connection_lane() = default;

std::shared_ptr<tensor_channel> connection_lane::open(std::uint32_t channel) {
  {
    const std::lock_guard hold{lock_};
    open_channels_.insert(channel);
    last_channel_ = std::max(last_channel_, channel);
  }
  return std::make_shared<channel_end>(shared_from_this(), channel);
}

void connection_lane::close(std::uint32_t channel) {
  {
    const std::lock_guard hold{lock_};
    if (open_channels_.erase(channel) == 0)
      return; // it was closed before
  }
  post([this, channel] {
    listeners_.erase(channel);
    std::erase_if(missing_tensors_, [channel](const auto& entry) {
      return entry.first.first == channel;
    });
    std::erase_if(early_tensors_, [channel](const message_key& key) {
      return key.first == channel;
    });
    lane_->receiver().close_channel(channel);
  });
}

/// Lets the thread of the lane run a command.
/// @returns false if the lane has ended. The command and its tensors are then
///          dropped.
bool connection_lane::post(command&& task) {
  {
    const std::lock_guard hold{lock_};
    if (ended_)
      return false;
    commands_.push_back(std::move(task));
  }
  ::eventfd_write(wake_.get(), 1);
  return true;
}

void connection_lane::stop() {
  {
    const std::lock_guard hold{lock_};
    stopped_ = true;
    stop_called_.notify_all();
  }
  ::eventfd_write(wake_.get(), 1);
}

bool connection_lane::wait_for_stop(std::chrono::milliseconds timeout) {
  std::unique_lock hold{lock_};
  return stop_called_.wait_for(hold, timeout, [this] { return stopped_; });
}

// -- the thread of the lane ---------------------------------------------------

void connection_lane::start(std::unique_ptr<net::lane> carrier) {
  lane_ = std::make_unique<transfer_lane>(std::move(carrier), options_.ends,
                                          options_.limits);
  last_packet_ = clock::now();
}

std::optional<net::lane::closed_state>
connection_lane::run(std::unique_ptr<net::lane> carrier) {
  start(std::move(carrier));
  const auto longest_wait = std::min(max_wait, options_.transfer_timeout / 4);
  while (true) {
    if (wait_for_stop(std::chrono::milliseconds{0})) {
      receive_the_rest();
      return std::nullopt;
    }
    if (auto closed = step(clock::now()))
      return closed;
    lane_->wait(longest_wait, wake_.get());
  }
}

/// Receives the tensors that the peer has sent before the connection ended. A
/// bounded number of steps, because the peer may still send.
void connection_lane::receive_the_rest() {
  for (int i = 0; i < max_last_steps; ++i)
    if (step(clock::now())
        || !lane_->wait(std::chrono::nanoseconds{0}, wake_.get()))
      return;
}

std::optional<net::lane::closed_state> connection_lane::run_until_idle() {
  std::optional<net::lane::closed_state> closed;
  do
    closed = step(clock::now());
  while (!closed && lane_->wait(std::chrono::nanoseconds{0}, wake_.get()));
  return closed;
}

std::optional<net::lane::closed_state>
connection_lane::step(clock::time_point now) {
  run_commands();
  for (auto& event : lane_->progress())
    handle(std::move(event));
  if (!closed_ && lane_->failure())
    closed_ = {net::close_reason::closed, *lane_->failure()};
  if (!closed_) {
    check_offers();
    check_timeouts(now);
  }
  return closed_;
}

void connection_lane::run_commands() {
  eventfd_t count = 0;
  ::eventfd_read(wake_.get(), &count);
  std::vector<command> commands;
  {
    const std::lock_guard hold{lock_};
    commands.swap(commands_);
  }
  for (auto& task : commands)
    task();
}

void connection_lane::handle(tensor_transfer::effect&& event) {
  if (auto* tensors = std::get_if<tensor_transfer::arrived>(&event))
    deliver(std::move(*tensors));
  else if (const auto* x = std::get_if<tensor_transfer::cancelled>(&event))
    violated("the tensors of " + name_of(x->channel, x->message)
             + " were cancelled");
  else if (const auto* x = std::get_if<tensor_transfer::protocol_error>(&event))
    violated(x->reason);
  // `delivered` needs nothing. `refused`: the peer has closed the channel.
}

void connection_lane::deliver(tensor_transfer::arrived&& tensors) {
  const auto it = listeners_.find(tensors.channel);
  if (it == listeners_.end())
    return lane_->receiver().release(tensors.transfer);
  const message_key key{tensors.channel, tensors.message};
  if (missing_tensors_.erase(key) == 0)
    early_tensors_.insert(key);
  it->second(arrived_tensors{tensors.transfer, tensors.message,
                             std::move(tensors.tensors)});
}

/// Refuses transfers to channels that this side has closed. A channel that was
/// never opened is a violation, because the peer cannot know its number.
void connection_lane::check_offers() {
  for (const auto channel : lane_->receiver().unopened_channels()) {
    {
      const std::lock_guard hold{lock_};
      if (open_channels_.contains(channel))
        continue; // it has no listener yet
      if (channel > last_channel_)
        return violated("tensors for channel " + std::to_string(channel)
                        + ", which does not exist");
    }
    lane_->receiver().close_channel(channel);
  }
}

void connection_lane::check_timeouts(clock::time_point now) {
  if (now < next_check_)
    return;
  next_check_ = now + options_.transfer_timeout / 8;
  if (const auto count = lane_->received_packets();
      count != received_packets_) {
    received_packets_ = count;
    last_packet_ = now;
  }
  const auto is_late = [&](clock::time_point since) {
    return now - std::max(since, last_packet_) > options_.transfer_timeout;
  };
  for (auto& [key, since] : missing_tensors_) {
    if (lane_->receiver().holds_back(key.first, key.second))
      since = now;
    else if (is_late(since))
      return violated("no tensors arrived for "
                      + name_of(key.first, key.second));
  }
}

void connection_lane::violated(std::string reason) {
  if (!closed_)
    closed_ = {net::close_reason::protocol_error, std::move(reason)};
}

void connection_lane::end(
  const std::optional<net::lane::closed_state>& closed) {
  const bool is_violation =
    closed && closed->cause == net::close_reason::protocol_error;
  std::vector<command> commands;
  {
    const std::lock_guard hold{lock_};
    ended_ = true;
    commands.swap(commands_);
  }
  // Listeners that were set too late for `run` also receive the end.
  if (!lane_)
    start(nullptr);
  for (auto& task : commands)
    task();
  for (const auto& [channel, on_event] : listeners_)
    on_event(lane_ended{is_violation ? ec::protocol : ec::peer_lost,
                        closed ? closed->reason : "the connection has ended"});
  listeners_.clear();
  lane_.reset();
}

} // namespace troupe
