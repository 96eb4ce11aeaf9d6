#pragma once

#include "troupe/actors/core/error_code_caf.hpp"

#include <exception>

namespace troupe {

/// Whoever throws out of a handler ends with the exception's text, not with one
/// that only standard output sees.
template <class Self>
void keep_last_words(Self* self) {
  self->set_exception_handler([](std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& e) {
      return caf::make_error(ec::protocol, std::string{e.what()});
    } catch (...) {
      return caf::make_error(
        ec::protocol, std::string{"something that is no std::exception"});
    }
  });
}

} // namespace troupe
