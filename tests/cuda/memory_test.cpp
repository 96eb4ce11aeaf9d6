#include "card.hpp"
#include "troupe/tensors/base/device_error.hpp"
#include "troupe/tensors/optim/update_rules.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace {

using namespace troupe;
using namespace troupe::test;

tensor counted(std::int64_t n) {
  tensor out{shape{n}};
  float x = 0;
  for (auto& one : out.mutable_data<float>())
    one = x++;
  return out;
}

TEST_F(OnACard, TensorsAreCopiedThereAndBack) {
  for (const std::int64_t n : {1, 3, 1000, 10'000'000}) {
    const auto x = counted(n);
    const auto there = x.to(card);
    EXPECT_EQ(there.device(), card);
    EXPECT_TRUE(same_bits(there, x));
    EXPECT_TRUE(same_bits(there.clone().slice(0, n / 2), x.slice(0, n / 2)));
  }
}

TEST_F(OnACard, PinnedTensorsMayChangeAfterTheCopy) {
  auto x = tensor::pinned({{1'000'000}, dtype::float32}, device_kind::cuda);
  x.copy_from(counted(1'000'000));
  const auto there = x.to(card);
  x.set_zero();
  EXPECT_TRUE(same_bits(there, counted(1'000'000)));
}

/// Sizes around those of the pinned memory that such copies go through.
TEST_F(OnACard, TensorsMayChangeAfterTheCopy) {
  for (const std::int64_t n : {1, 262'143, 262'145, 10'000'000})
    for (int repeat = 0; repeat < 3; ++repeat) {
      auto x = counted(n);
      const auto there = x.to(card);
      x.set_zero();
      EXPECT_TRUE(same_bits(there, counted(n))) << n;
    }
}

TEST_F(OnACard, ElementsAreConvertedAsOnTheCpu) {
  constexpr auto infinity = std::numeric_limits<double>::infinity();
  const auto x = tensor::of<double>(
    {18}, {0, 1e-45, 1, -1, 0.5, 2.5, 255.7, 256, 1e10, -1e10, 3e38, 1e300, 0.1,
           1 + 0x1p-9, infinity, -infinity, NAN, NAN});
  for (std::size_t from = 0; from < dtype_count; ++from)
    for (std::size_t to = 0; to < dtype_count; ++to) {
      // A NaN may have other bits as another float.
      const auto count =
        to == from || !is_float(static_cast<dtype>(to)) ? 18 : 16;
      const auto here = x.slice(0, count).as(static_cast<dtype>(from));
      const auto there = here.to(card);
      EXPECT_TRUE(same_bits(there.as(static_cast<dtype>(to)),
                            here.as(static_cast<dtype>(to))))
        << to_string(static_cast<dtype>(from)) << " to "
        << to_string(static_cast<dtype>(to));
    }
}

TEST_F(OnACard, ReleasedMemoryIsUsedAgain) {
  const auto before = backend().used(card);
  const std::byte* address = nullptr;
  {
    const auto x = tensor::zeros({1000}, dtype::float32, card);
    address = x.address();
    EXPECT_GE(backend().used(card).live, before.live + 4000);
  }
  EXPECT_EQ(backend().used(card).live, before.live);
  EXPECT_EQ(tensor::zeros({1000}, dtype::float32, card).address(), address);
}

TEST_F(OnACard, TooLittleMemoryIsAnErrorAfterWhichTheDeviceIsUsable) {
  const auto before = backend().used(card);
  std::vector<tensor> list;
  std::string text;
  try {
    for (int i = 0; i < 1000; ++i)
      list.emplace_back(tensor_spec{{std::int64_t{1} << 30}, dtype::float32},
                        card);
  } catch (const device_error& e) {
    text = e.what();
  }
  EXPECT_NE(text.find("cuda:0 has too little memory: 4294967296 bytes were "
                      "asked for, "),
            std::string::npos)
    << text;
  list.clear();
  EXPECT_EQ(backend().used(card).live, before.live);
  const auto x = counted(1000);
  EXPECT_TRUE(same_bits(x.to(card), x));
}

TEST_F(OnACard, UpdateRulesHaveTheBitsOfTheCpu) {
  constexpr std::size_t n = 10'007;
  const std::vector<update_rule> rules{
    sgd{.learning_rate = 0.1f},
    sgd{.learning_rate = 0.1f, .momentum = 0.9f},
    sgd{.learning_rate = 0.1f, .momentum = 0.9f, .nesterov = true},
    adam{},
    adamw{.weight_decay = 0.1f},
    adagrad{},
    ftrl{.learning_rate = 0.1f},
    ftrl{.learning_rate = 0.1f,
         .l1_regularization_strength = 0.5f,
         .l2_regularization_strength = 0.2f,
         .l2_shrinkage_regularization_strength = 0.1f,
         .beta = 0.3f},
    ftrl{.learning_rate = 0},
  };
  for (const auto& rule : rules) {
    auto x = counted(n), g = counted(n);
    for (auto* one : {&x, &g})
      for (auto& v : one->mutable_data<float>())
        v = std::sin(v + float(one == &g));
    // Some gradients are so small that their squares are denormal.
    for (std::size_t i = 0; i < 100; ++i)
      g.mutable_data<float>()[i] *= 1e-20f;
    std::vector<tensor> slots, there_slots;
    for (std::size_t s = 0; s < rule.slots(); ++s) {
      const auto value = rule.initial_slot_value(s);
      slots.push_back(tensor::full(x.dims(), value));
      there_slots.push_back(
        tensor::full(x.dims(), value, dtype::float32, card));
    }
    auto there = x.to(card);
    const auto there_g = g.to(card);
    const auto is_skipped = tensor::zeros({1}, dtype::int32, card);
    const auto* const is_skipped_address =
      reinterpret_cast<const std::int32_t*>(is_skipped.address());
    for (std::uint64_t step = 1; step <= 3; ++step) {
      std::vector<std::span<float>> spans;
      std::array<float*, 2> addresses{};
      for (std::size_t s = 0; s < slots.size(); ++s) {
        spans.push_back(slots[s].mutable_data<float>());
        addresses[s] = reinterpret_cast<float*>(there_slots[s].address());
      }
      rule.apply(x.mutable_data<float>(), g.data<float>(), spans, step,
                 rule.learning_rate(), 0.5f);
      backend().update(
        card, rule.step_at(step, rule.learning_rate(), 0.5f).coefficients(),
        reinterpret_cast<float*>(there.address()),
        reinterpret_cast<const float*>(there_g.address()), addresses, n,
        is_skipped_address);
      EXPECT_TRUE(same_bits(there, x)) << rule.name() << ", step " << step;
    }
    for (std::size_t s = 0; s < slots.size(); ++s)
      EXPECT_TRUE(same_bits(there_slots[s], slots[s])) << rule.name();
  }
}

TEST_F(OnACard, ASkippedUpdateChangesNothing) {
  constexpr std::size_t n = 10'007;
  const auto address = [](const tensor& x) {
    return reinterpret_cast<float*>(x.address());
  };
  for (const auto& rule : std::vector<update_rule>{sgd{}, adam{}, ftrl{}}) {
    const auto x = counted(n).to(card), g = counted(n).to(card);
    const auto first = counted(n).to(card), second = counted(n).to(card);
    const auto is_skipped = tensor::full({1}, 1, dtype::int32, card);
    backend().update(
      card, rule.step_at(1, rule.learning_rate(), 0.5f).coefficients(),
      address(x), address(g), {address(first), address(second)}, n,
      reinterpret_cast<const std::int32_t*>(is_skipped.address()));
    for (const auto* one : {&x, &first, &second})
      EXPECT_TRUE(same_bits(*one, counted(n))) << rule.name();
  }
}

TEST_F(OnACard, LargeElementsAreFound) {
  constexpr auto greatest = std::numeric_limits<float>::max();
  auto x = counted(100'000);
  const auto exceeds = [&](float limit) {
    const auto there = x.to(card);
    const auto found = tensor::zeros({1}, dtype::int32, card);
    backend().find_exceeding(
      card, reinterpret_cast<const float*>(there.address()), there.size(),
      limit, reinterpret_cast<std::int32_t*>(found.address()));
    return found.to({}).data<std::int32_t>()[0] != 0;
  };
  EXPECT_FALSE(exceeds(greatest));
  EXPECT_FALSE(exceeds(99'999));
  EXPECT_TRUE(exceeds(99'998));
  for (const float value : {NAN, std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
    x.mutable_data<float>()[77'777] = value;
    EXPECT_TRUE(exceeds(greatest)) << value;
  }
}

/// A copy beside the computation, from and to pinned memory.
TEST_F(OnACard, EventsOrderTheCopiesOfTwoStreams) {
  constexpr std::int64_t n = 5'000'000;
  const auto pinned = [](const tensor& x) {
    auto out = tensor::pinned(x.spec(), device_kind::cuda);
    out.copy_from(x);
    return out;
  };
  const auto allocated = backend().make_event(card),
             copied = backend().make_event(card),
             done = backend().make_event(card);
  EXPECT_TRUE(done->is_done()) << "no work precedes it";
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto source = pinned(counted(n));
    auto there = tensor::full({n}, -1, dtype::float32, card);
    allocated->record(device_backend::stream::compute);
    allocated->block(device_backend::stream::copy);
    backend().start_copy(card, there.address(), {}, source.address(),
                         source.bytes(), device_backend::stream::copy);
    copied->record(device_backend::stream::copy);
    copied->block(device_backend::stream::compute);
    const auto next = there.clone();
    there.set_zero();
    const auto result = pinned(tensor::zeros({n}));
    backend().start_copy({}, result.address(), card, next.address(),
                         next.bytes(), device_backend::stream::compute);
    done->record(device_backend::stream::compute);
    done->synchronize();
    EXPECT_TRUE(copied->is_done());
    EXPECT_TRUE(done->is_done());
    ASSERT_TRUE(same_bits(result, counted(n))) << repeat;
  }
}

TEST_F(OnACard, ADeviceThatIsNotThereIsAnErrorThatCountsThem) {
  const device missing{device_kind::cuda, backend().count()};
  EXPECT_EQ(error_of([&] { tensor::zeros({1}, dtype::float32, missing); }),
            "device " + to_string(missing) + " does not exist; there are "
              + std::to_string(backend().count()));
}

} // namespace
