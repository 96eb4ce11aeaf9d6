#pragma once

#include "troupe/actors/core/error_code_caf.hpp"

#include <exception>

namespace troupe {

/// Makes `self` terminate when an exception escapes from one of its message
/// handlers. The exit reason is `ec::protocol` with the exception's text. CAF's
/// default handler only prints that text to standard output.
template <class Self>
void install_exception_handler(Self* self) {
  self->set_exception_handler([](std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& e) {
      return caf::make_error(ec::protocol, std::string{e.what()});
    } catch (...) {
      return caf::make_error(
        ec::protocol,
        std::string{"an exception that is not derived from std::exception"});
    }
  });
}

} // namespace troupe
