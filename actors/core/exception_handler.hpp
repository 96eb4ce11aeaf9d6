#pragma once

#include "troupe/actors/core/error_code_caf.hpp"

#include <exception>

namespace troupe {

/// Installs an exception handler: an exception that escapes from a message
/// handler of `self` becomes the exit reason, `ec::protocol` with its text.
/// CAF's default handler only prints the text to standard output.
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
