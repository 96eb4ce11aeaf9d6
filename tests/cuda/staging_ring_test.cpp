#include "troupe/tensors/cuda/staging_ring.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

// The stream of this test is a list of copies, so it needs no card.

namespace {

using namespace troupe;

/// A stream that makes its copies as late as the calls allow.
class late_stream final : public cuda::staging_ring::stream {
public:
  late_stream(std::size_t pieces, int& waits)
    : recorded_(pieces, 0), waits_{waits} {}
  ~late_stream() override { make_copies(copies_.size()); }

  void start_copy(std::byte* target, const std::byte* pinned,
                  std::size_t bytes) override {
    copies_.push_back({target, pinned, bytes});
  }
  void record(std::size_t piece) override { recorded_[piece] = copies_.size(); }
  void wait(std::size_t piece) override {
    ++waits_;
    make_copies(recorded_[piece]);
  }

private:
  struct copy {
    std::byte* target;
    const std::byte* pinned;
    std::size_t bytes;
  };
  void make_copies(std::size_t end) {
    for (; made_ < end; ++made_)
      std::memcpy(copies_[made_].target, copies_[made_].pinned,
                  copies_[made_].bytes);
  }

  std::vector<copy> copies_;
  std::size_t made_ = 0;
  std::vector<std::size_t> recorded_; ///< By piece: copies before it.
  int& waits_;
};

constexpr std::size_t pieces = 3, piece_bytes = 256;

struct copied_list {
  bool is_equal = true; ///< All targets have what their sources had.
  int waits = 0;
};

/// Copies memory that changes as soon as the call has returned.
copied_list copy_in_turn(const std::vector<std::size_t>& sizes) {
  std::vector<std::byte> pinned(pieces * piece_bytes);
  std::vector<std::vector<std::byte>> targets;
  for (const auto size : sizes)
    targets.emplace_back(size);
  copied_list out;
  {
    cuda::staging_ring it{std::make_unique<late_stream>(pieces, out.waits),
                          pinned.data(), pieces, piece_bytes};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<std::byte> source(sizes[i], std::byte(i + 1));
      it.copy(targets[i].data(), source.data(), sizes[i]);
      std::ranges::fill(source, std::byte{0xff});
    }
  }
  for (std::size_t i = 0; i < sizes.size(); ++i)
    out.is_equal &= std::ranges::count(targets[i], std::byte(i + 1))
                    == std::ptrdiff_t(sizes[i]);
  return out;
}

TEST(StagingRing, TheSourceMayChangeAfterTheCall) {
  for (const std::size_t size : {1, 63, 64, 65, 255, 256, 257, 2000})
    EXPECT_TRUE(copy_in_turn(std::vector<std::size_t>(100, size)).is_equal)
      << size;
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 100; ++i)
    sizes.push_back(1 + i * i % 701);
  EXPECT_TRUE(copy_in_turn(sizes).is_equal);
}

TEST(StagingRing, WaitsOnlyIfAllPiecesAreFull) {
  EXPECT_EQ(copy_in_turn({256, 256, 256}).waits, 0);
  EXPECT_EQ(copy_in_turn({256, 256, 256, 1}).waits, 1);
  EXPECT_EQ(copy_in_turn(std::vector<std::size_t>(12, 1)).waits, 0);
  EXPECT_EQ(copy_in_turn(std::vector<std::size_t>(13, 1)).waits, 1);
  EXPECT_EQ(copy_in_turn({9 * 256}).waits, 6);
}

} // namespace
