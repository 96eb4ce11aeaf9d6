#include "troupe/tests/data/counted.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace troupe::data {
namespace {

using namespace testing;

struct chain {
  dataset data;
  std::string text;
};

/// Makes a random finite chain of up to six stages.
chain random_chain(std::mt19937_64& rng) {
  const auto n = std::int64_t(rng() % 20);
  chain result{counted(n), "counted(" + std::to_string(n) + ")"};
  bool mixed = false; // Batches of batches need equal sizes.
  for (auto links = rng() % 7; links > 0; --links) {
    const auto k = 1 + rng() % 7;
    const auto argument = std::to_string(k) + ")";
    switch (rng() % 8) {
      case 0:
        result = {result.data.take(k + 5), result.text + ".take(5+" + argument};
        break;
      case 1:
        result = {result.data.skip(k), result.text + ".skip(" + argument};
        break;
      case 2:
        result = {result.data.repeat(k), result.text + ".repeat(" + argument};
        break;
      case 3:
        result = {result.data.shuffle(k, k),
                  result.text + ".shuffle(" + argument};
        break;
      case 4:
        result = {result.data.shuffle(whole_dataset, k),
                  result.text + ".shuffle(whole, " + argument};
        break;
      case 5:
        result = {result.data.prefetch(k),
                  result.text + ".prefetch(" + argument};
        break;
      case 6:
        result = {result.data.repeat().shuffle(k).take(30),
                  result.text + ".repeat().take(30).shuffle(" + argument};
        break;
      default:
        if (!std::exchange(mixed, true))
          result = {result.data.batch(k), result.text + ".batch(" + argument};
    }
  }
  result.data = result.data.take(100);
  return result;
}

// A cursor at a saved position of any chain continues with the same elements.
// This fails if a position counts prefetched elements, if a shuffle continues
// from its last order, or if a repeat loses its epoch.
TEST(Position, ResumesAnyChain) {
  std::size_t cuts = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 rng{seed};
    const auto tested = random_chain(rng);
    const auto pass = rng() % 3;
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + tested.text);
    const auto undisturbed = all_names(tested.data, pass);
    ASSERT_EQ(undisturbed.size(), tested.data.size());

    auto cut = tested.data.iterate({pass, 0});
    auto elsewhere = tested.data.iterate({pass + 1, 0});
    for (std::size_t i = 0; i <= undisturbed.size(); i += 1 + rng() % 5) {
      while (cut.save().index < i)
        cut.next();
      const lists wanted(undisturbed.begin() + std::ptrdiff_t(i),
                         undisturbed.end());
      auto fresh = tested.data.iterate(cut.save());
      ASSERT_EQ(rest(fresh), wanted) << "cut at " << i;
      elsewhere.next();
      elsewhere.restore(cut.save());
      ASSERT_EQ(rest(elsewhere), wanted) << "cut at " << i;
      ++cuts;
    }
  }
  EXPECT_GT(cuts, 1000u);
}

TEST(Position, CountsReturnedElementsOnly) {
  auto x = counted(10).batch(3).prefetch(4).iterate({2, 0});
  EXPECT_EQ(x.save(), (position{2, 0}));
  x.next();
  EXPECT_EQ(x.save(), (position{2, 1}));
  while (x.next())
    continue;
  EXPECT_EQ(x.save(), (position{2, 4}));
  EXPECT_EQ(x.next(), std::nullopt);
}

TEST(Position, RestoringReadsNothingAgain) {
  std::size_t read = 0;
  const auto x = counted(1000).map([&](const batch& x) {
    ++read;
    return x;
  });
  auto each = x.shuffle(whole_dataset, 1).batch(10).iterate();
  each.restore({4, 99});
  EXPECT_EQ(read, 0u);
  EXPECT_TRUE(each.next());
  EXPECT_EQ(read, 10u);
}

TEST(Position, RejectsAPositionOfAnotherDataset) {
  auto x = counted(10).batch(3).iterate();
  EXPECT_NO_THROW(x.restore({0, 4}));
  EXPECT_EQ(complaint([&] {
              x.restore({0, 5});
            }),
            "position 5 of a dataset of 4 elements: it was saved with another "
            "dataset or another batch size");
  EXPECT_EQ(x.save(), (position{0, 4}));
}

} // namespace
} // namespace troupe::data
