#include "troupe/models/description.hpp"
#include "troupe/models/network.hpp"
#include "troupe/models/zoo.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>

namespace troupe::models {
namespace {

/// Texts that a mutation inserts. Most of them have a meaning in a description.
constexpr std::array<std::string_view, 24> pieces{
  "{",    "}",    "[",       "]",    "\"",       ",",
  ":",    "-",    "0",       "9",    "1e400",    "1.5",
  "null", "true", "\\u0000", "\xff", "\n",       "type",
  "name", "[[",   "relu",    "{}",   "16777216", "18446744073709551616"};

std::string mutated(std::string text, std::mt19937_64& rng) {
  for (auto left = 1 + rng() % 3; left > 0; --left) {
    const auto offset = rng() % text.size();
    const auto length = rng() % std::min<std::size_t>(12, text.size() - offset);
    switch (rng() % 4) {
      case 0:
        text[offset] = static_cast<char>(rng() % 256);
        break;
      case 1:
        text.replace(offset, length, pieces[rng() % pieces.size()]);
        break;
      case 2:
        text.insert(offset, text.substr(rng() % text.size(), length * 4));
        break;
      case 3:
        text.resize(std::max<std::size_t>(1, offset));
    }
  }
  return text;
}

// `parse` reads a mutated description completely or rejects it in one sentence.
// Run this test with the preset asan too.
TEST(MutatedDescription, IsReadInFullOrRejectedInOneSentence) {
  const auto nested = R"({"version": 1, "name": "n", "input": [9, 9, 2],
    "layers": [{"type": "sequential", "name": "body", "layers": [
      {"type": "conv2d", "filters": 3, "kernel": [3, 2], "padding": "same"},
      {"type": "dropout", "rate": 0.25}]},
      {"type": "max_pool2d", "stride": 1}, {"type": "flatten"},
      {"type": "dense", "units": 4, "bias_initializer": "zeros"}]})";
  const std::array<std::string, 3> seeds{to_json_text(lenet()),
                                         to_json_text(mlp()), nested};
  int read = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng{seed};
    const auto text = mutated(seeds[seed % seeds.size()], rng);
    try {
      const auto x = parse(text, "m.json");
      ASSERT_EQ(to_json_text(parse(to_json_text(x), "again")), to_json_text(x));
      ++read;
    } catch (const std::invalid_argument& e) {
      const std::string_view why{e.what()};
      ASSERT_TRUE(why.starts_with("m.json: ")) << why;
      ASSERT_LE(why.size(), 500u) << why;
      for (const auto c : why)
        ASSERT_TRUE(c >= ' ' && c <= '~') << why;
      ++refused;
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 10'000);
}

} // namespace
} // namespace troupe::models
