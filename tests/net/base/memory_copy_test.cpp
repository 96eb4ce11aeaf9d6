#include "troupe/net/base/memory_copy.hpp"
#include "troupe/tests/net/lanes/lanes.hpp"

#include <gtest/gtest.h>

using namespace troupe::net;
using namespace troupe::net::testing;

TEST(MemoryCopy, CopiesExactlyTheBytesAtAnyAlignment) {
  const auto source = bytes_of(1, 5000);
  for (const std::size_t size : {0, 1, 127, 1023, 1024, 1025, 1151, 1152, 4096})
    for (std::size_t shift = 0; shift < 70; shift += 3) {
      std::vector<std::byte> target(5000);
      copy_large(std::span{source}.subspan(shift, size),
                 std::span{target}.subspan(2 * shift));
      std::vector<std::byte> wanted(5000);
      std::copy_n(source.begin() + shift, size, wanted.begin() + 2 * shift);
      EXPECT_EQ(target, wanted) << size << " " << shift;
    }
}
