#include "troupe/training/strategies/multi_worker.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;
using implementations = communication_options::implementations;
using backends = communication_options::backends;

std::string error_text_of(const communication_options& x) {
  try {
    check(x);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no error";
}

TEST(Communication, InvalidOptionsAreRejected) {
  check(communication_options{});
  check(communication_options{.implementation = implementations::tree});
  const auto has = [](const communication_options& x, const char* a,
                      const char* b) {
    const auto said = error_text_of(x);
    EXPECT_NE(said.find(a), said.npos) << said;
    EXPECT_NE(said.find(b), said.npos) << said;
  };
  has({.bytes_per_pack = -1}, "bytes_per_pack -1", "0");
  has({.timeout = std::chrono::milliseconds{0}}, "timeout 0 ms", "1 ms");
  has({.callback_timeout = std::chrono::milliseconds{0}},
      "callback_timeout 0 ms", "1 ms");
  check(communication_options{.implementation = implementations::ring});
  check(communication_options{.implementation = implementations::nccl});
  has({.implementation = implementations::nccl, .collectives = backends::host},
      "implementation nccl", "collectives host");
  has({.implementation = implementations::ring, .collectives = backends::nccl},
      "implementation ring", "collectives nccl");
  EXPECT_THROW(check(call_options{.implementation = implementations::nccl}),
               std::invalid_argument);
}

TEST(Communication, TheAllReduceOfNcclNeedsNccl) {
  EXPECT_EQ(collectives_of({}), backends::automatic);
  EXPECT_EQ(collectives_of({.collectives = backends::host}), backends::host);
  EXPECT_EQ(collectives_of({.implementation = implementations::nccl}),
            backends::nccl);
}

TEST(Communication, NamesAreCaseInsensitive) {
  EXPECT_EQ(parse_implementation("AUTO"), implementations::automatic);
  EXPECT_EQ(parse_implementation("tree"), implementations::tree);
  EXPECT_EQ(parse_implementation("Ring"), implementations::ring);
  EXPECT_EQ(parse_implementation("NCCL"), implementations::nccl);
  EXPECT_THROW(parse_implementation("smoke"), std::invalid_argument);
  EXPECT_EQ(parse_collectives("Auto"), backends::automatic);
  EXPECT_EQ(parse_collectives("HOST"), backends::host);
  EXPECT_EQ(parse_collectives("nccl"), backends::nccl);
  EXPECT_THROW(parse_collectives("tree"), std::invalid_argument);
}

} // namespace
