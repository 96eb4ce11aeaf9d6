#include "troupe/actors/node/spare_announcer.hpp"

#include "troupe/net/base/exponential_backoff.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/session/service_router.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

namespace troupe {

namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// What the endpoint's thread reports to the thread of the announcer.
struct inbox {
  std::mutex lock; // guards the members below
  std::condition_variable changed;
  bool stops = false; ///< The announcer is being destroyed.
  std::optional<net::endpoint::dial_result> dialed;
  std::optional<spare_outcome> outcome;
  std::string fault;                ///< Why the outcome is malformed.
  std::optional<std::string> ended; ///< Why the connection has ended.
};

/// Closes a connection that is not used, because the endpoint would keep
/// it open.
void close_unused(const net::endpoint::dial_result& attempt) {
  const auto* const made =
    attempt.connection
      ? std::get_if<std::shared_ptr<net::connection>>(&*attempt.connection)
      : nullptr;
  if (made)
    (*made)->close("the node ends");
}

/// Receives the outcome on the channel of the spare.
class outcome_listener final : public net::channel_listener {
public:
  explicit outcome_listener(std::shared_ptr<inbox> target)
    : inbox_{std::move(target)} {}

  void on_frame(net::frame&& frame) override {
    const std::lock_guard hold{inbox_->lock};
    if (!inbox_->outcome && inbox_->fault.empty())
      inbox_->outcome = decode_outcome(frame.payload, inbox_->fault);
    inbox_->changed.notify_all();
  }

  void on_closed(net::close_reason, const std::string& reason) override {
    const std::lock_guard hold{inbox_->lock};
    inbox_->ended = reason;
    inbox_->changed.notify_all();
  }

private:
  std::shared_ptr<inbox> inbox_;
};

} // namespace

struct spare_announcer::impl {
  impl(std::shared_ptr<service_router> by, const options& announcer_options)
    : router{std::move(by)},
      config{announcer_options},
      client{net::parse_address(config.client)},
      backoff{{}, config.seed} {
    if (const auto fault = fault_of(config.describe()); !fault.empty())
      throw std::invalid_argument("join " + config.client + ": " + fault);
    dial();
    thread = std::thread{[this] { run(); }};
  }

  ~impl() {
    {
      const std::lock_guard hold{events->lock};
      events->stops = true;
      events->changed.notify_all();
    }
    thread.join();
  }

  void run() {
    try {
      announce();
    } catch (const job_error& e) {
      config.on_failure(e);
    } catch (const std::exception& e) {
      config.on_failure(
        {ec::invalid, "join " + config.client + ": " + e.what()});
    }
  }

  /// Announces the node until there is an outcome, or the announcer ends.
  /// @errors throws `job_error` as `on_failure` gets it.
  void announce() {
    auto deadline = clock::now() + config.join_timeout;
    for (;; dial()) {
      auto attempt = wait_for_dial();
      if (!attempt)
        return;
      if (attempt->connection) {
        if (wait_on(*attempt->connection))
          return;
        deadline = clock::now() + config.join_timeout;
        backoff.reset();
      } else if (attempt->permanent
                 || (attempt->rejected && attempt->payload != try_again())) {
        throw job_error{ec::refused, "join " + attempt->reason};
      }
      const auto delay = backoff.next();
      if (clock::now() + delay > deadline)
        throw job_error{
          ec::unreachable,
          "join " + config.client + ": no client has accepted this node within "
            + "join_timeout, " + std::to_string(config.join_timeout.count())
            + " ms (" + attempt->reason
            + "); start the client, or give the address at which it listens"};
      if (!wait_for(delay))
        return;
    }
  }

  void dial() {
    net::hello hello;
    hello.name = config.name;
    hello.incarnation = config.incarnation;
    hello.purpose = spare_purpose;
    auto description = config.describe();
    hello.payload = net::encode(description);
    router->endpoint().dial_once(client, hello, config.attempt_timeout,
                                 [to = events](net::endpoint::dial_result&& x) {
                                   std::unique_lock hold{to->lock};
                                   if (to->stops) {
                                     hold.unlock();
                                     return close_unused(x);
                                   }
                                   to->dialed = std::move(x);
                                   to->changed.notify_all();
                                 });
  }

  /// Waits for the result of an attempt, which ends within its timeout.
  /// @returns none if the announcer ends.
  std::optional<net::endpoint::dial_result> wait_for_dial() {
    std::unique_lock hold{events->lock};
    events->changed.wait(hold,
                         [this] { return events->stops || events->dialed; });
    auto out = std::exchange(events->dialed, std::nullopt);
    const bool stops = events->stops;
    hold.unlock();
    if (!stops)
      return out;
    if (out)
      close_unused(*out);
    return std::nullopt;
  }

  /// @returns false if the announcer ends.
  bool wait_for(milliseconds delay) {
    std::unique_lock hold{events->lock};
    return !events->changed.wait_for(hold, delay,
                                     [this] { return events->stops; });
  }

  /// Waits for the outcome.
  /// @returns false if the connection was lost before.
  bool wait_on(const net::accepted_connection& accepted) {
    const auto& connection =
      std::get<std::shared_ptr<net::connection>>(accepted);
    {
      const std::lock_guard hold{events->lock};
      events->ended.reset();
    }
    const auto channel = connection->open(spare_channel);
    channel->set_listener(std::make_shared<outcome_listener>(events));
    config.on_event("this node waits as a spare of the client at "
                    + config.client);
    std::unique_lock hold{events->lock};
    events->changed.wait(hold, [this] {
      return events->stops || events->outcome || events->ended
             || !events->fault.empty();
    });
    const auto outcome = events->outcome;
    const auto fault = events->fault;
    const auto stops = events->stops;
    const auto ended = events->ended.value_or("");
    hold.unlock();
    connection->close(stops ? "the node ends" : "the node is no spare now");
    if (outcome)
      handle(*outcome);
    else if (!fault.empty())
      throw job_error{ec::protocol, "join " + config.client + ": " + fault};
    else if (!stops)
      config.on_event("the connection to the client at " + config.client
                      + " was lost (" + net::printable(ended)
                      + "); this node announces itself again");
    return stops || outcome;
  }

  void handle(const spare_outcome& outcome) const {
    const auto text = net::printable_lines(outcome.text);
    if (outcome.end == spare_end::refused)
      throw job_error{ec::refused,
                      "join " + config.client
                        + ": the client has refused this node: " + text};
    config.on_event("the client at " + config.client
                    + (outcome.end == spare_end::used
                         ? " uses this node: "
                         : " has released this node: ")
                    + text);
  }

  const std::shared_ptr<service_router> router;
  const options config;
  const net::address client;
  net::exponential_backoff backoff;
  const std::shared_ptr<inbox> events = std::make_shared<inbox>();
  std::thread thread;
};

spare_announcer::spare_announcer(std::shared_ptr<service_router> router,
                                 const options& announcer_options)
  : impl_{std::make_unique<impl>(std::move(router), announcer_options)} {}

spare_announcer::~spare_announcer() = default;

} // namespace troupe
