#pragma once

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/core/job_error.hpp"

#include <caf/scheduled_actor.hpp>

#include <exception>

namespace troupe {

namespace detail {

/// Converts an exception to an error with its text. A `job_error` keeps its
/// code.
inline caf::error error_of(const std::exception_ptr& thrown, ec code) {
  try {
    std::rethrow_exception(thrown);
  } catch (const job_error& e) {
    return caf::make_error(e.code, std::string{e.what()});
  } catch (const std::exception& e) {
    return caf::make_error(code, std::string{e.what()});
  } catch (...) {
    return caf::make_error(
      code,
      std::string{"an exception that is not derived from std::exception"});
  }
}

/// Logs an exception in the handler of a oneway message, at most once in 10 s
/// for all actors.
void log_exception_of_oneway(const char* actor_name, const std::string& text);

} // namespace detail

/// Makes `self` terminate when an exception escapes from one of its message
/// handlers. The exit reason is `ec::protocol` with the exception's text. CAF's
/// default handler only prints that text to standard output.
template <class Self>
void install_exception_handler(Self* self) {
  self->set_exception_handler([](std::exception_ptr& thrown) {
    auto error = detail::error_of(thrown, ec::protocol);
    return caf::make_error(ec::protocol,
                           error.context().get_as<std::string>(0));
  });
}

/// Makes `self` continue when an exception escapes from one of its message
/// handlers. A request receives `ec::invalid` with the exception's text, or the
/// code and text of a `job_error`. The exception of a oneway message is logged
/// as a warning, at most once in 10 s. An exception from the function that
/// makes the behavior terminates `self` with that error.
template <class Self>
void respond_with_exceptions(Self* self) {
  self->set_exception_handler(
    [](caf::scheduled_actor* actor, std::exception_ptr& thrown) -> caf::error {
      auto error = detail::error_of(thrown, ec::invalid);
      const auto* message = actor->current_mailbox_element();
      if (!actor->has_behavior() || !message)
        return error;
      // The handler may have made a promise and lost it, which marks the
      // request as answered. So the response is sent without a promise. The
      // requester ignores a second response.
      if (message->mid.is_request() && message->sender) {
        message->sender->enqueue(actor->ctrl(),
                                 caf::message_id{message->mid.request_id()}
                                   .with_normal_priority()
                                   .response_id(),
                                 caf::make_message(std::move(error)),
                                 actor->context());
        return {};
      }
      detail::log_exception_of_oneway(actor->name(),
                                      error.context().get_as<std::string>(0));
      return {};
    });
}

} // namespace troupe
