#pragma once

#include <chrono>
#include <string>

namespace troupe::test {

/// How long a test waits for what happens at once on an idle machine.
inline constexpr std::chrono::seconds patience{60};

/// Calls `error_text(timeout)` with a timeout of 200 ms, which doubles up to
/// about 13 s until the returned text contains `expected`. Returns the last
/// text. For tests that name who is missing when a timeout ends: on a busy
/// machine, others than the intended ones may be late too.
template <class F>
std::string with_sufficient_timeout(const std::string& expected, F error_text) {
  std::chrono::milliseconds timeout{200};
  auto text = error_text(timeout);
  for (int doubled = 0; doubled < 6 && text.find(expected) == text.npos;
       ++doubled)
    text = error_text(timeout *= 2);
  return text;
}

} // namespace troupe::test
