#include "troupe/actors/core/exception_handler.hpp"

#include "troupe/actors/core/exception_text.hpp"
#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"

#include <caf/mailbox_element.hpp>

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

namespace troupe {

namespace {

struct code_and_text {
  std::optional<ec> code; ///< None: the exception is no `job_error`.
  std::string text;
};

code_and_text describe(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const job_error& e) {
    return {e.code, e.what()};
  } catch (...) {
    return {std::nullopt, exception_text(thrown)};
  }
}

/// Logs a warning, at most once in 10 s for all actors.
void log_exception_of_oneway(const char* actor_name, const std::string& text) {
  using clock = std::chrono::steady_clock;
  static std::mutex lock;
  static std::optional<clock::time_point> next_warning;
  {
    const std::lock_guard hold{lock};
    const auto now = clock::now();
    if (next_warning && now < *next_warning)
      return;
    next_warning = now + std::chrono::seconds{10};
  }
  log(log_level::warning, "the role " + std::string{actor_name}
                            + " threw an exception in the handler of a "
                              "message without a response: "
                            + text);
}

/// The sender and the id of the message that an actor handles. They are copied
/// before the handler runs: a promise that the handler makes takes them, and
/// destroys them if an exception destroys the promise.
class current_request {
public:
  explicit current_request(caf::scheduled_actor* self) : self_{self} {
    const auto* message = self->current_mailbox_element();
    if (message && message->mid.is_request()) {
      sender_ = message->sender;
      id_ = message->mid;
    }
  }

  /// Responds with an exception. If there is no request, logs the exception.
  /// The requester ignores a second response.
  void respond(const std::exception_ptr& thrown) {
    const auto [code, text] = describe(thrown);
    if (!sender_)
      return log_exception_of_oneway(self_->name(), text);
    sender_->enqueue(
      self_->ctrl(), id_.response_id(),
      caf::make_message(caf::make_error(code.value_or(ec::invalid), text)),
      self_->context());
  }

private:
  caf::scheduled_actor* self_;
  caf::strong_actor_ptr sender_; ///< Null: the message is no request.
  caf::message_id id_;
};

/// Calls another behavior, and handles its exceptions.
class responding_behavior : public caf::detail::behavior_impl {
public:
  responding_behavior(caf::scheduled_actor* self,
                      caf::behavior::impl_ptr handlers)
    : behavior_impl{handlers->timeout()},
      self_{self},
      handlers_{std::move(handlers)} {
    begin_ = end_ = nullptr;
  }

  caf::match_case::result
  invoke_empty(caf::detail::invoke_result_visitor& visitor) override {
    return guard([&] { return handlers_->invoke_empty(visitor); });
  }

  caf::match_case::result invoke(caf::detail::invoke_result_visitor& visitor,
                                 caf::type_erased_tuple& message) override {
    return guard([&] { return handlers_->invoke(visitor, message); });
  }

  void handle_timeout() override { handlers_->handle_timeout(); }

private:
  template <class F>
  caf::match_case::result guard(F fn) {
    current_request request{self_};
    try {
      return fn();
    } catch (...) {
      request.respond(std::current_exception());
      return caf::match_case::match;
    }
  }

  caf::scheduled_actor* self_;
  caf::behavior::impl_ptr handlers_;
};

} // namespace

caf::error end_by_exception::operator()(std::exception_ptr& thrown) const {
  return caf::make_error(ec::protocol, describe(thrown).text);
}

caf::behavior respond_with_exceptions(caf::scheduled_actor* self,
                                      const caf::behavior& behavior) {
  if (!behavior)
    return behavior;
  return caf::behavior{caf::behavior::impl_ptr{
    new responding_behavior{self, behavior.as_behavior_impl()}, false}};
}

} // namespace troupe
