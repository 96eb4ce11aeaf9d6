#include "troupe/tensors/base/bfloat16.hpp"
#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tests/tensors/special_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using troupe::test::infinity;
using troupe::test::nan;

using troupe::kernel_table;

constexpr std::size_t buffer_size = 40'000;
constexpr float untouched = -77.25f;

/// Returns typical values of both signs, among them zeros and large values.
std::vector<float> values(std::size_t n, unsigned seed) {
  std::mt19937 rng{seed};
  std::vector<float> out(n);
  for (auto& x : out) {
    x = (static_cast<float>(rng() % 20'001) - 10'000) / 3000;
    if (rng() % 8 == 0)
      x = 0;
    if (rng() % 64 == 0)
      x *= 1e20f;
  }
  return out;
}

/// Arguments of a kernel. operator[](i) returns array i from element `offset` *
/// (i + 1) on. With an offset above 0, the arguments are not aligned.
struct bench {
  std::array<std::vector<float>, 4> arrays;
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(buffer_size, 9);
  std::vector<std::int32_t> labels = std::vector<std::int32_t>(buffer_size);
  double scalar = 0;
  std::size_t offset = 0;

  bench() {
    for (std::size_t i = 0; i < arrays.size(); ++i)
      arrays[i] = values(buffer_size, 7 + static_cast<unsigned>(i));
    std::mt19937 rng{7};
    for (std::size_t i = 0; i < buffer_size; ++i) {
      labels[i] = static_cast<std::int32_t>(rng() % 1000);
      bytes[i] = static_cast<std::uint8_t>(rng() % 256);
    }
  }

  float* operator[](std::size_t i) {
    return arrays[i].data() + offset * (i + 1);
  }

  bool same_bits(const bench& other) const {
    for (std::size_t i = 0; i < arrays.size(); ++i)
      if (std::memcmp(arrays[i].data(), other.arrays[i].data(), buffer_size * 4)
          != 0)
        return false;
    return std::bit_cast<std::int64_t>(scalar)
             == std::bit_cast<std::int64_t>(other.scalar)
           && bytes == other.bytes;
  }
};

/// Calls `run` with the kernels of every instruction-set level, on equal input.
/// Expects that afterwards all members of `bench` have equal bits.
template <class F>
void expect_same_bits(const char* name, std::size_t n, F run) {
  static const bench input;
  for (const std::size_t offset : {0, 1, 5}) {
    auto first = input;
    first.offset = offset;
    run(troupe::kernel_levels().front(), first);
    for (const auto& level : troupe::kernel_levels().subspan(1)) {
      auto next = input;
      next.offset = offset;
      run(level, next);
      EXPECT_TRUE(first.same_bits(next))
        << name << " at " << level.level << ", size " << n << ", offset "
        << offset;
    }
  }
}

const std::size_t sizes[] = {0,  1,  2,  3,  4,  5,   7,   8,   9,    15,  16,
                             17, 31, 32, 33, 47, 100, 255, 257, 4095, 4097};

TEST(Kernels, ElementwiseKernelsHaveTheSameBitsAtEveryLevel) {
  for (const auto n : sizes) {
    expect_same_bits("add", n, [n](const kernel_table& k, bench& b) {
      k.add(b[0], b[1], b[2], n);
    });
    expect_same_bits("add_into", n, [n](const kernel_table& k, bench& b) {
      k.add_into(b[0], b[1], n);
    });
    expect_same_bits("scale", n, [n](const kernel_table& k, bench& b) {
      k.scale(b[0], 0.3f, n);
    });
    expect_same_bits("axpy", n, [n](const kernel_table& k, bench& b) {
      k.axpy(b[0], 0.7f, b[1], n);
    });
    expect_same_bits("relu", n, [n](const kernel_table& k, bench& b) {
      k.relu(b[0], b[1], n);
      k.relu_mask(b[2], b[0], n);
    });
    expect_same_bits("bfloat16", n, [n](const kernel_table& k, bench& b) {
      std::vector<std::uint16_t> x(n + b.offset), y(x);
      k.to_bfloat16(x.data() + b.offset, b[0], n);
      k.to_bfloat16(y.data() + b.offset, b[1], n);
      k.relu_bfloat16(x.data() + b.offset, n);
      k.relu_mask_bfloat16(y.data() + b.offset, x.data() + b.offset, n);
      k.from_bfloat16(b[0], x.data() + b.offset, n);
      k.from_bfloat16(b[1], y.data() + b.offset, n);
    });
    expect_same_bits("from_bytes", n, [n](const kernel_table& k, bench& b) {
      k.from_bytes(b[0], b.bytes.data() + b.offset, 1.0f / 255, n);
    });
    expect_same_bits(
      "exp", n, [n](const kernel_table& k, bench& b) { k.exp(b[0], b[1], n); });
    expect_same_bits("sigmoid_cross_entropy", n,
                     [n](const kernel_table& k, bench& b) {
                       k.sigmoid_cross_entropy(b[0], b[1], b[2], b[3], n);
                     });
    expect_same_bits("exceeds", n, [n](const kernel_table& k, bench& b) {
      b.scalar = k.any_exceeds(b[0], n, 1.0f);
    });
  }
}

TEST(Kernels, UpdatesHaveTheSameBitsAtEveryLevel) {
  for (const auto n : sizes) {
    expect_same_bits("sgd", n, [n](const kernel_table& k, bench& b) {
      k.sgd(b[0], b[1], n, 0.1f, 0.3f);
    });
    expect_same_bits("momentum", n, [n](const kernel_table& k, bench& b) {
      k.momentum(b[0], b[1], b[2], n, 0.1f, 0.9f, 0.3f);
    });
    expect_same_bits("nesterov", n, [n](const kernel_table& k, bench& b) {
      k.nesterov(b[0], b[1], b[2], n, 0.1f, 0.9f, 0.3f);
    });
    expect_same_bits("adam", n, [n](const kernel_table& k, bench& b) {
      k.relu(b[3], b[3], n); // Like mean squares: not negative.
      k.adam(b[0], b[1], b[2], b[3], n,
             {0.01f, 0.9f, 0.1f, 0.999f, 0.001f, 1.7f, 1e-8f, 0.99f}, 0.3f);
    });
    expect_same_bits("adagrad", n, [n](const kernel_table& k, bench& b) {
      k.relu(b[2], b[2], n); // Like sums of squares: not negative.
      k.adagrad(b[0], b[1], b[2], n, 0.1f, 1e-7f, 0.3f);
    });
    expect_same_bits("ftrl", n, [n](const kernel_table& k, bench& b) {
      k.relu(b[2], b[2], n);
      k.ftrl(b[0], b[1], b[2], b[3], n, {0.1f, 0.02f, 0.3f, 0.7f}, 0.3f);
    });
  }
}

TEST(Kernels, RowKernelsHaveTheSameBitsAtEveryLevel) {
  for (const std::size_t m : {0, 1, 2, 3, 5, 31, 129})
    for (const std::size_t n : {1, 2, 7, 10, 16, 17, 33, 64, 255, 257}) {
      expect_same_bits("bias_add", n, [=](const kernel_table& k, bench& b) {
        k.bias_add(b[0], b[1], m, n);
        k.bias_add_relu(b[0], b[2], m, n);
      });
      expect_same_bits("scale_rows", n, [=](const kernel_table& k, bench& b) {
        k.scale_rows(b[0], b[1], b[2], m, n, false);
        k.scale_rows(b[0], b[3], b[2], m, n, true);
      });
      expect_same_bits("column_sums", n, [=](const kernel_table& k, bench& b) {
        k.column_sums(b[0], m, n, n, b[1], false);
        k.masked_column_sums(b[2], b[3], m, n, n, b[1], true);
        std::vector<std::uint16_t> narrow(m * n);
        k.to_bfloat16(narrow.data(), b[2], m * n);
        k.column_sums_bfloat16(narrow.data(), m, n, n, b[0], true);
      });
      expect_same_bits("softmax", n, [=](const kernel_table& k, bench& b) {
        k.softmax(b[0], b[1], m, n);
        for (auto& label : b.labels)
          label %= static_cast<std::int32_t>(n);
        b.scalar = static_cast<double>(
          k.softmax_cross_entropy(b[1], b.labels.data(), m, n, b[2], b[3]));
      });
      expect_same_bits("sum", n, [=](const kernel_table& k, bench& b) {
        b.scalar = k.sum(b[0], m * n) + k.sum_of_squares(b[1], m * n);
      });
    }
}

const troupe::pool_window windows[] = {
  {2, 6, 8, 5, 3, 4, 2, 2, 2, 2},  // 2 x 2 windows as in lenet.
  {2, 7, 9, 33, 3, 4, 2, 2, 2, 2}, // No window covers the last row, column.
  {1, 7, 7, 3, 4, 4, 3, 3, 2, 2, 1, 1}, // Padded and overlapping.
  {1, 5, 6, 16, 4, 5, 2, 2, 1, 1},      // Overlapping.
  {1, 3, 3, 1, 3, 3, 2, 2, 1, 1},       // Padded only at bottom and right.
};

TEST(Kernels, PoolingHasTheSameBitsAtEveryLevel) {
  for (const auto& at : windows)
    expect_same_bits("pool", at.channels, [&](const kernel_table& k, bench& b) {
      k.max_pool(at, b[0], b[1], b.bytes.data());
      k.max_pool_backward(at, b[1], b.bytes.data(), b[2], false);
      k.max_pool_backward(at, b[1], b.bytes.data(), b[3], true);
    });
}

TEST(Kernels, WriteOnlyTheirOutput) {
  for (const auto& k : troupe::kernel_levels())
    for (const auto n : sizes) {
      std::vector<float> out(n + 2, untouched);
      const auto x = values(n, 3);
      k.add(out.data() + 1, x.data(), x.data(), n);
      k.exp(out.data() + 1, x.data(), n);
      k.softmax(out.data() + 1, x.data(), 1, n);
      k.column_sums(x.data(), 1, n, n, out.data() + 1, false);
      EXPECT_EQ(out.front(), untouched) << k.level << ", size " << n;
      EXPECT_EQ(out.back(), untouched) << k.level << ", size " << n;
    }
}

/// All values of bfloat16, as bits.
std::vector<std::uint16_t> all_bfloat16() {
  std::vector<std::uint16_t> out(0x1'0000);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::uint16_t>(i);
  return out;
}

// A NaN is signalling if its bit 6 is clear: rounding sets it.
TEST(Kernels, Bfloat16RoundsLikeItsType) {
  std::vector<float> x;
  for (const std::uint32_t high : all_bfloat16())
    for (const std::uint32_t low : {0x0000, 0x0001, 0x7fff, 0x8000, 0x8001})
      x.push_back(std::bit_cast<float>(high << 16 | low));
  for (const auto& k : troupe::kernel_levels()) {
    std::vector<std::uint16_t> out(x.size());
    k.to_bfloat16(out.data(), x.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(out[i], troupe::bfloat16{x[i]}.bits)
        << k.level << ", bits " << std::bit_cast<std::uint32_t>(x[i]);
  }
}

TEST(Kernels, Bfloat16KernelsComputeWhatThoseForFloatDo) {
  const auto bits = all_bfloat16();
  const auto n = bits.size();
  std::vector<float> x(n);
  for (const auto& k : troupe::kernel_levels()) {
    k.from_bfloat16(x.data(), bits.data(), n);
    for (std::size_t i = 0; i < n; ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(x[i]),
                std::uint32_t{bits[i]} << 16)
        << k.level;
    auto relu = bits;
    k.relu_bfloat16(relu.data(), n);
    std::vector<std::uint16_t> mask(n, 7);
    k.relu_mask_bfloat16(mask.data(), bits.data(), n);
    for (std::size_t i = 0; i < n; ++i) {
      const bool is_kept = x[i] > 0 || std::isnan(x[i]);
      ASSERT_EQ(relu[i], is_kept ? bits[i] : 0) << k.level << ", bits " << i;
      ASSERT_EQ(mask[i], x[i] > 0 ? 7 : 0) << k.level << ", bits " << i;
    }
    const std::vector<std::uint16_t> ones(130 * 3, 0x3f80); // 1
    std::vector<float> sums(4, untouched);
    k.column_sums_bfloat16(ones.data(), 130, 2, 3, sums.data() + 1, false);
    EXPECT_EQ(sums, (std::vector{untouched, 130.0f, 130.0f, untouched}));
    k.column_sums_bfloat16(ones.data(), 2, 2, 3, sums.data() + 1, true);
    EXPECT_EQ(sums, (std::vector{untouched, 132.0f, 132.0f, untouched}));
  }
}

TEST(Kernels, ElementwiseKernelsComputeTheirDefinition) {
  constexpr std::size_t n = 103;
  const auto& k = troupe::kernels();
  const auto a = values(n, 1), b = values(n, 2);
  std::vector<float> out(n);
  const auto expect = [&](auto definition) {
    for (std::size_t i = 0; i < n; ++i)
      EXPECT_EQ(out[i], definition(i)) << i;
  };
  k.add(out.data(), a.data(), b.data(), n);
  expect([&](auto i) { return a[i] + b[i]; });
  out = a;
  k.add(out.data(), out.data(), b.data(), n);
  expect([&](auto i) { return a[i] + b[i]; });
  out = a;
  k.axpy(out.data(), 3, b.data(), n);
  expect([&](auto i) { return a[i] + 3 * b[i]; });
  k.relu(out.data(), a.data(), n);
  expect([&](auto i) { return a[i] > 0 ? a[i] : 0; });
  out = a;
  k.relu_mask(out.data(), b.data(), n);
  expect([&](auto i) { return b[i] > 0 ? a[i] : 0; });
  out = a;
  k.bias_add_relu(out.data(), b.data(), 10, 10);
  for (std::size_t i = 0; i < 100; ++i)
    EXPECT_EQ(out[i], std::max(0.0f, a[i] + b[i % 10]));
  out = a;
  k.scale_rows(out.data(), a.data(), b.data(), 10, 10, true);
  for (std::size_t i = 0; i < 100; ++i)
    EXPECT_EQ(out[i], a[i] + a[i] * b[i / 10]);
}

TEST(Kernels, ReluKeepsNanAndReturnsNoNegativeZero) {
  const float x[] = {nan, -0.0f, -infinity, infinity};
  float y[4];
  troupe::kernels().relu(y, x, 4);
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_FALSE(std::signbit(y[1]));
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], infinity);
}

TEST(Kernels, FindAnElementBeyondALimitAtAnyIndex) {
  constexpr float max = std::numeric_limits<float>::max();
  for (const auto& k : troupe::kernel_levels())
    for (const auto limit : {0.0f, 1.0f, max / 6, max}) {
      std::vector<float> x(2051, limit);
      for (std::size_t i = 0; i < x.size(); i += 2)
        x[i] = -limit;
      EXPECT_FALSE(k.any_exceeds(x.data(), x.size(), limit)) << k.level;
      const auto next = std::nextafter(limit, infinity);
      for (const auto bad : {nan, -nan, infinity, -infinity, next, -next})
        for (const std::size_t i : {0, 1, 16, 1023, 1024, 2047, 2048, 2050}) {
          const auto good = std::exchange(x[i], bad);
          EXPECT_TRUE(k.any_exceeds(x.data(), x.size(), limit))
            << k.level << ' ' << bad << ' ' << i;
          EXPECT_FALSE(k.any_exceeds(x.data(), i, limit));
          x[i] = good;
        }
    }
}

// A process uses the kernels of the instruction-set level that TROUPE_LEVEL
// names. If it cannot run them, an error lists the levels that it can run. A
// process chooses the level once, so the test starts other processes.
TEST(KernelsDeathTest, UseTheLevelInTheEnvironmentOrListTheLevels) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto choose = [](const char* level) {
    setenv("TROUPE_LEVEL", level, 1);
    try {
      std::cerr << "level: " << troupe::kernel_level();
    } catch (const std::runtime_error& error) {
      std::cerr << error.what();
    }
    std::_Exit(0);
  };
  const auto fine = ::testing::ExitedWithCode(0);
  EXPECT_EXIT(choose("baseline"), fine, "level: baseline");
  EXPECT_EXIT(choose("v9"), fine,
              "TROUPE_LEVEL is 'v9'; this processor runs baseline");
  EXPECT_EXIT(choose(""), fine,
              "level: " + std::string{troupe::kernel_levels().back().level});
}

} // namespace
