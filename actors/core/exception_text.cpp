#include "troupe/actors/core/exception_text.hpp"

#include <new>

namespace troupe {

std::string exception_text(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return "not enough memory";
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is not derived from std::exception";
  }
}

} // namespace troupe
