#include "troupe/actors/core/exception_text.hpp"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace {

template <class T>
std::string text_after(const T& thrown) {
  return troupe::exception_text(std::make_exception_ptr(thrown));
}

TEST(ExceptionText, SaysWhatIsLackingInWords) {
  EXPECT_EQ(text_after(std::bad_alloc{}), "not enough memory");
  EXPECT_EQ(text_after(std::runtime_error{"no such row"}), "no such row");
  EXPECT_EQ(text_after(7),
            "an exception that is not derived from std::exception");
}

} // namespace
