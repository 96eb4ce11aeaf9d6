#include "losses.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>

// A worker whose program joins its job and throws before its first step.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

/// The others go on, or end with a sentence that names it.
TEST(EarlyEnd, OfAWorkerHoldsNoneUp) {
  for (const std::uint32_t workers : {2, 3})
    for (const std::uint32_t ends : {0, 1}) {
      SCOPED_TRACE("worker " + std::to_string(ends) + " of "
                   + std::to_string(workers) + " ends");
      const auto begin = std::chrono::steady_clock::now();
      const auto thrown =
        run_on_cluster(workers, {}, [&](const strategy& on, std::uint32_t w) {
          const auto scope = on.scope();
          auto it = small_model();
          if (w == ends)
            throw std::runtime_error("the program has failed");
          it.fit(uneven_batches());
        });
      EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
      for (std::uint32_t w = 0; w < workers; ++w) {
        const auto text = exception_text(thrown[w]);
        if (w == ends)
          EXPECT_EQ(text, "the program has failed");
        else
          EXPECT_TRUE(text.empty()
                      || text.find("worker " + std::to_string(ends))
                           != text.npos)
            << text;
      }
    }
}

} // namespace
