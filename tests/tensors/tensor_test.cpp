#include "troupe/tensors/tensor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using troupe::dtype;
using troupe::same_bits;
using troupe::tensor;

constexpr dtype all_types[] = {dtype::float32, dtype::float64, dtype::int32,
                               dtype::int64,   dtype::uint8,   dtype::boolean,
                               dtype::bfloat16};

std::string refusal_of(const auto& what) {
  try {
    what();
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "no error";
}

tensor counting(const troupe::shape& dims) {
  tensor out{dims};
  float next = 0;
  for (auto& x : out.mutable_data<float>())
    x = next++;
  return out;
}

TEST(Tensor, IsEmptyByDefault) {
  const tensor x;
  EXPECT_FALSE(x);
  EXPECT_TRUE(tensor{troupe::shape{}});
  EXPECT_TRUE(tensor(troupe::shape{0}));
  EXPECT_NE(refusal_of([&] { x.data<float>(); }), "no error");
  EXPECT_FALSE(x.clone());
  auto scalar = tensor::zeros({});
  EXPECT_NE(refusal_of([&] { scalar.copy_from(x); }), "no error");
}

TEST(Tensor, RejectsImpossibleSizes) {
  const troupe::shape most{std::int64_t{1} << 62};
  for (const auto type : all_types) // 2^65 bytes of float64 are 0 mod 2^64.
    EXPECT_THROW(tensor(most, type), std::bad_alloc) << to_string(type);
  EXPECT_THROW(tensor(troupe::shape{(1ll << 62) - 1}), std::bad_alloc);
  EXPECT_THROW(tensor(troupe::shape{1ll << 61}, dtype::float64),
               std::bad_alloc);
}

TEST(Tensor, HoldsElementsOfEveryTypeAlignedTo64Bytes) {
  for (const auto type : all_types) {
    const tensor x{{3, 5}, type};
    EXPECT_EQ(x.size(), 15u);
    EXPECT_EQ(x.bytes(), 15 * size_of(type));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.raw()) % 64, 0u);
    const auto zeros = tensor::zeros({2, 2}, type);
    const auto threes = tensor::full({2}, 3, type);
    troupe::with_dtype(type, [&]<class T>(T) {
      EXPECT_EQ(zeros.data<T>().size(), 4u);
      for (const auto each : zeros.data<T>())
        EXPECT_EQ(each, T{});
      for (const auto each : threes.data<T>())
        EXPECT_EQ(each, static_cast<T>(3));
    });
  }
}

TEST(Tensor, HasItsElementsInRowMajorOrder) {
  const auto x = tensor::of<std::int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(x.type(), dtype::int32);
  EXPECT_EQ(x.slice(1, 2).data<std::int32_t>()[0], 4);
  EXPECT_NE(refusal_of([] {
              tensor::of<float>({2, 2}, {1, 2, 3});
            }).find("3"),
            std::string::npos);
}

TEST(Tensor, SharesElementsWithCopiesButNotWithAClone) {
  auto x = counting({4});
  const auto copy = x;
  const auto clone = x.clone();
  x.mutable_data<float>()[2] = 9;
  EXPECT_EQ(copy.data<float>()[2], 9);
  EXPECT_EQ(clone.data<float>()[2], 2);
  EXPECT_TRUE(x.shares_storage_with(copy));
  EXPECT_FALSE(x.shares_storage_with(clone));
  EXPECT_FALSE(x.unique());
  EXPECT_TRUE(clone.unique());
}

TEST(Tensor, IsUniqueAgainWithoutOtherHandles) {
  auto x = counting({4});
  {
    const auto part = x.slice(0, 1);
    EXPECT_FALSE(x.unique());
  }
  EXPECT_TRUE(x.unique());
  auto moved = std::move(x);
  EXPECT_TRUE(moved.unique());
}

TEST(Tensor, ThatIsEmptyHasNoElements) {
  const tensor none;
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(none.bytes(), 0u);
  EXPECT_FALSE(none);
  EXPECT_EQ(tensor::full({}, 5).size(), 1u) << "a scalar has an element";
  EXPECT_EQ(refusal_of([&] { none.data<float>(); }),
            "an empty tensor read as float32");
  EXPECT_EQ(refusal_of([&] { none.item<float>(); }),
            "item() needs one element, but got an empty tensor");
  EXPECT_EQ(refusal_of([&] { none.reshaped({1}); }),
            "an empty tensor cannot be reshaped to [1]");
  EXPECT_EQ(refusal_of([&] { none.slice(0, 1); }),
            "rows [0, 1) of an empty tensor");
}

TEST(Tensor, ThatIsReadOnlyRefusesWritesThroughAllItsViews) {
  auto x = counting({4});
  auto shown = x.read_only();
  EXPECT_TRUE(shown.is_read_only());
  EXPECT_TRUE(shown.shares_storage_with(x));
  const std::vector<tensor> views{shown,
                                  shown.slice(1, 3),
                                  shown.reshaped({2, 2}),
                                  shown.range(0, 2),
                                  shown.detach(),
                                  shown.as(dtype::float32),
                                  shown.to({})};
  for (auto view : views) {
    const auto why = "float32" + to_string(view.dims())
                     + " is read-only, because it shares its elements with "
                       "their owner, such as a dataset; write to its clone()";
    EXPECT_EQ(refusal_of([&] { view.mutable_data<float>(); }), why);
    EXPECT_EQ(refusal_of([&] { view.mutable_address(); }), why);
    EXPECT_EQ(refusal_of([&] { view.set_zero(); }), why);
    EXPECT_EQ(refusal_of([&] { view.copy_from(view.clone()); }), why);
  }
  auto own = shown.clone();
  own.mutable_data<float>()[0] = 7;
  EXPECT_EQ(x.data<float>()[0], 0);
  x.mutable_data<float>()[0] = 9; // an older handle
  EXPECT_EQ(shown.data<float>()[0], 9);
}

TEST(Tensor, RejectsAccessAsAnotherType) {
  const auto x = counting({2, 3});
  const auto why = refusal_of([&] { x.data<double>(); });
  EXPECT_NE(why.find("float32[2, 3]"), why.npos) << why;
  EXPECT_NE(why.find("float64"), why.npos) << why;
  auto y = x;
  EXPECT_NE(refusal_of([&] { y.mutable_data<std::uint8_t>(); }), "no error");
}

TEST(Tensor, HasAnItemOnlyWithOneElement) {
  EXPECT_EQ(tensor::full({1, 1}, 5).item<float>(), 5);
  EXPECT_EQ(tensor::full({}, 5).item<float>(), 5);
  EXPECT_NE(refusal_of([] { counting({2}).item<float>(); }), "no error");
  EXPECT_NE(refusal_of([] { counting({0}).item<float>(); }), "no error");
}

TEST(Tensor, SlicesRowsOfSlicesInPlace) {
  auto x = counting({6, 2});
  auto middle = x.slice(2, 5);
  EXPECT_EQ(middle.dims(), (troupe::shape{3, 2}));
  EXPECT_EQ(middle.data<float>()[0], 4);
  auto last = middle.slice(2, 3);
  EXPECT_EQ(last.data<float>()[1], 9);
  last.mutable_data<float>()[1] = -1;
  EXPECT_EQ(x.data<float>()[9], -1);
  EXPECT_EQ(middle.slice(1, 1).size(), 0u);
  EXPECT_EQ(x.slice(6, 6).size(), 0u);
}

TEST(Tensor, RejectsRowsThatItDoesNotHave) {
  const auto x = counting({6, 2});
  for (const auto& [begin, end] : {std::pair{-1, 2}, {3, 2}, {0, 7}, {7, 7}})
    EXPECT_NE(refusal_of([&, b = begin, e = end] { x.slice(b, e); }),
              "no error")
      << begin << ' ' << end;
  EXPECT_NE(refusal_of([] { tensor::full({}, 1).slice(0, 1); }), "no error");
  const auto why = refusal_of([&] { x.slice(3, 9); });
  EXPECT_NE(why.find("[3, 9)"), why.npos) << why;
  EXPECT_NE(why.find("[6, 2]"), why.npos) << why;
}

TEST(Tensor, SlicesRowsWithoutElements) {
  const tensor x{troupe::shape{4, 0}};
  EXPECT_EQ(x.slice(1, 3).dims(), (troupe::shape{2, 0}));
  EXPECT_EQ(tensor(troupe::shape{0, 4}).slice(0, 0).dims(),
            (troupe::shape{0, 4}));
}

TEST(Tensor, IsReshapedToTheSameSize) {
  const auto x = counting({2, 6});
  const auto y = x.slice(1, 2).reshaped({3, 2});
  EXPECT_EQ(y.data<float>()[5], 11);
  EXPECT_TRUE(y.shares_storage_with(x));
  const auto why = refusal_of([&] { x.reshaped({5}); });
  EXPECT_NE(why.find("[5]"), why.npos) << why;
  EXPECT_NE(why.find("[2, 6]"), why.npos) << why;
}

TEST(Tensor, ReturnsARangeOfTheFlattenedElements) {
  const auto x = counting({3, 4});
  const auto y = x.range(3, 9);
  EXPECT_EQ(y.dims(), (troupe::shape{6}));
  EXPECT_EQ(y.data<float>()[0], 3);
  EXPECT_EQ(x.range(12, 12).size(), 0u);
  EXPECT_NE(refusal_of([&] { x.range(3, 13); }), "no error");
  EXPECT_NE(refusal_of([&] { x.range(5, 4); }), "no error");
  EXPECT_NE(refusal_of([&] { x.range(0, ~std::size_t{0}); }), "no error");
}

TEST(Tensor, CopiesTheElementsOfAnEqualSpecOnly) {
  auto x = tensor::zeros({2, 2});
  x.copy_from(counting({2, 2}));
  EXPECT_TRUE(same_bits(x, counting({2, 2})));
  EXPECT_NE(refusal_of([&] { x.copy_from(counting({4})); }), "no error");
  EXPECT_NE(refusal_of([&] {
              x.copy_from(tensor::zeros({2, 2}, dtype::int32));
            }),
            "no error");
  auto overlapping = counting({5});
  overlapping.range(1, 5).copy_from(overlapping.range(0, 4));
  EXPECT_TRUE(same_bits(overlapping, tensor::of<float>({5}, {0, 0, 1, 2, 3})));
}

TEST(Tensor, ConvertsBetweenAllTypes) {
  for (const auto from : all_types)
    for (const auto to : all_types) {
      const auto y = tensor::full({3}, 1, from).as(to);
      EXPECT_EQ(y.type(), to);
      EXPECT_TRUE(same_bits(y, tensor::full({3}, 1, to)));
    }
  const auto x = counting({3});
  EXPECT_TRUE(x.as(dtype::float32).shares_storage_with(x));
}

TEST(Tensor, FloatsBeyondAnIntegerTypeBecomeItsNearestValue) {
  const auto check = [&]<class From>(From) {
    using limits = std::numeric_limits<From>;
    const auto x = tensor::of<From>(
      {8}, {limits::quiet_NaN(), -limits::infinity(), limits::infinity(),
            limits::max(), From(-1.5), From(255.75), From(256), From(0x1p63)});
    EXPECT_TRUE(same_bits(
      x.as(dtype::uint8),
      tensor::of<std::uint8_t>({8}, {0, 0, 255, 255, 0, 255, 255, 255})));
    constexpr auto low32 = std::numeric_limits<std::int32_t>::min(),
                   high32 = std::numeric_limits<std::int32_t>::max();
    EXPECT_TRUE(same_bits(x.as(dtype::int32), tensor::of<std::int32_t>(
                                                {8}, {0, low32, high32, high32,
                                                      -1, 255, 256, high32})));
    constexpr auto low64 = std::numeric_limits<std::int64_t>::min(),
                   high64 = std::numeric_limits<std::int64_t>::max();
    EXPECT_TRUE(same_bits(x.as(dtype::int64), tensor::of<std::int64_t>(
                                                {8}, {0, low64, high64, high64,
                                                      -1, 255, 256, high64})));
  };
  check(float{});
  check(double{});
}

TEST(Tensor, ConvertsTheLastFloatsThatAnIntegerHoldsExactly) {
  const auto x =
    tensor::of<double>({4}, {-0x1p31, 0x1p31 - 1, -0x1p31 - 0.5, 0x1p31 - 0.5});
  EXPECT_TRUE(same_bits(x.as(dtype::int32), tensor::of<std::int32_t>(
                                              {4}, {-2147483648, 2147483647,
                                                    -2147483648, 2147483647})));
  const auto y = tensor::of<double>({2}, {-0x1p63, 0x1p63 - 1024});
  EXPECT_TRUE(
    same_bits(y.as(dtype::int64),
              tensor::of<std::int64_t>(
                {2}, {std::numeric_limits<std::int64_t>::min(),
                      std::numeric_limits<std::int64_t>::max() - 1023})));
}

TEST(Tensor, IsFilledWithTheNearestValueOfItsType) {
  EXPECT_EQ(tensor::full({1}, 300, dtype::uint8).item<std::uint8_t>(), 255);
  EXPECT_EQ(tensor::full({1}, -1, dtype::uint8).item<std::uint8_t>(), 0);
  EXPECT_EQ(tensor::full({1}, 1e300, dtype::int64).item<std::int64_t>(),
            std::numeric_limits<std::int64_t>::max());
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(tensor::full({1}, nan, dtype::int32).item<std::int32_t>(), 0);
}

TEST(Tensor, HasNoTraceInItsViewsWhileNoTapeRecords) {
  const auto x = counting({2, 2}).with_trace(7);
  EXPECT_EQ(x.trace(), 7u);
  EXPECT_EQ(tensor{x}.trace(), 7u);
  EXPECT_EQ(x.slice(0, 2).trace(), 0u);
  EXPECT_EQ(x.reshaped({4}).trace(), 0u);
  EXPECT_EQ(x.range(0, 4).trace(), 0u);
  EXPECT_EQ(x.clone().trace(), 0u);
  EXPECT_EQ(x.detach().trace(), 0u);
  EXPECT_TRUE(x.detach().shares_storage_with(x));
}

TEST(Tensor, ComparesBitsNotValues) {
  const auto zero = tensor::of<float>({1}, {0.0f});
  EXPECT_FALSE(same_bits(zero, tensor::of<float>({1}, {-0.0f})));
  EXPECT_FALSE(same_bits(zero, zero.reshaped({})));
  EXPECT_FALSE(same_bits(tensor::zeros({1}, dtype::int32), zero));
  EXPECT_FALSE(same_bits(tensor{}, tensor{troupe::shape{}}));
  EXPECT_TRUE(same_bits(tensor{}, tensor{}));
  const auto nan = tensor::full({2}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(same_bits(nan, nan.clone()));
}

TEST(Tensor, ElementsLiveAsLongAsTheLastHandleOnAnyThread) {
  for (int i = 0; i < 200; ++i) {
    auto x = counting({64});
    std::vector<std::jthread> readers;
    for (int r = 0; r < 3; ++r)
      readers.emplace_back([part = x.slice(r, r + 1), r] {
        const auto copy = part;
        EXPECT_EQ(copy.data<float>()[0], static_cast<float>(r));
      });
    x = tensor{};
  }
}

} // namespace
