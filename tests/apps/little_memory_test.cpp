#include "tool.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

#include <string>

// Runs of the tool with a limit of the address space.

namespace {

using namespace troupe;

class LittleMemory : public tool_test {
protected:
  void SetUp() override {
    if (test::slowness > 1)
      GTEST_SKIP() << "a sanitizer reserves more address space than the limits";
  }

  outcome train_with_limit(int kib, const std::string& processes) const {
    child_options options;
    options.folder = folder;
    return run_child({"/bin/sh", "-c",
                      "ulimit -v " + std::to_string(kib)
                        + " && exec " TROUPE_TOOL
                          " train --data digits:350 --epochs 1 --quiet "
                        + processes},
                     options);
  }
};

TEST_F(LittleMemory, IsNamedByOneSentence) {
  for (const int kib : {200'000, 300'000, 400'000, 500'000})
    for (const auto* processes : {"", "--workers 2"}) {
      const auto done = train_with_limit(kib, processes);
      EXPECT_EQ(done.code, 1) << kib;
      EXPECT_EQ(done.err,
                "troupe: not enough memory: the address space of this process "
                "is limited to "
                  + std::to_string(kib)
                  + " KiB, and the least is 524288 KiB; raise the limit "
                    "(ulimit -v)\n")
        << kib;
    }
}

// What the tool reserves, and the arenas that it maps, leave room for its
// threads.
TEST_F(LittleMemory, SufficesAboveTheLeast) {
  for (const int kib : {530'000, 800'000, 1'200'000, 1'400'000})
    for (const auto* processes :
         {"", "--workers 2", "--workers 4", "--workers 2 --servers 2"}) {
      const auto done = train_with_limit(kib, processes);
      EXPECT_EQ(done.code, 0)
        << kib << " KiB, \"" << processes << "\": " << done.err;
    }
}

} // namespace
