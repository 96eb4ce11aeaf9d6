#pragma once

#include "troupe/actors/core/error_code_caf.hpp"

#include <caf/behavior.hpp>
#include <caf/error.hpp>
#include <caf/scheduled_actor.hpp>

#include <exception>

namespace troupe {

/// Exception handler of an actor: the actor terminates with `ec::protocol` and
/// the exception's text. CAF's default handler only prints that text to
/// standard output.
struct end_by_exception {
  caf::error operator()(std::exception_ptr& thrown) const;
};

/// Makes `self` terminate when an exception escapes from one of its message
/// handlers. The exit reason is `ec::protocol` with the exception's text.
template <class Self>
void install_exception_handler(Self* self) {
  self->set_exception_handler(end_by_exception{});
}

/// Returns a behavior that continues when an exception escapes from one of the
/// message handlers of `behavior`. A request receives `ec::invalid` with the
/// exception's text, or the code and text of a `job_error`. The exception of a
/// oneway message is logged as a warning, at most once in 10 s for all actors.
/// @param self actor of the behavior.
caf::behavior respond_with_exceptions(caf::scheduled_actor* self,
                                      const caf::behavior& behavior);

/// A role of the class `Base` that responds to a request with the text of an
/// exception, and continues. If the function that makes its behavior sets
/// another exception handler, the role uses that handler instead. The role also
/// ends if an exception escapes from that function, from the handler of a
/// response, or from a behavior that `become` sets.
template <class Base>
class responding_role : public Base {
public:
  using Base::Base;

  /// Calls the function that makes the role's behavior.
  template <class F>
  caf::behavior initialize_with(F& fn) {
    this->set_exception_handler(
      caf::scheduled_actor::exception_handler{default_handler{}});
    auto behavior = fn(this);
    return this->exception_handler_.template target<default_handler>()
             ? respond_with_exceptions(this, behavior)
             : behavior;
  }

private:
  struct default_handler {
    caf::error operator()(caf::scheduled_actor*,
                          std::exception_ptr& thrown) const {
      return end_by_exception{}(thrown);
    }
  };
};

} // namespace troupe
