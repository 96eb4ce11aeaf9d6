#include "troupe/training/support/resident_tensor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace troupe;

TEST(ResidentTensor, HasThePagesOfALargeTensor) {
  memory::trim();
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto x = resident_tensor({std::int64_t{16} << 20});
  ASSERT_EQ(x.bytes(), std::size_t{64} << 20);
  const auto first = reinterpret_cast<std::uintptr_t>(x.raw()) / page * page;
  const auto bytes =
    reinterpret_cast<std::uintptr_t>(x.raw()) + x.bytes() - first;
  std::vector<unsigned char> pages((bytes + page - 1) / page);
  ASSERT_EQ(::mincore(reinterpret_cast<void*>(first), bytes, pages.data()), 0);
  const auto resident = static_cast<std::size_t>(
    std::ranges::count_if(pages, [](auto p) { return (p & 1) != 0; }));
  if (std::thread::hardware_concurrency() > 1) {
    EXPECT_EQ(resident, pages.size());
  }
}

TEST(ResidentTensor, MayBeSmall) {
  EXPECT_EQ(resident_tensor({3}).size(), 3u);
  EXPECT_EQ(resident_tensor({0}).size(), 0u);
}

} // namespace
