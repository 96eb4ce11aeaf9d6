#include "card.hpp"
#include "troupe/tensors/device_error.hpp"
#include "troupe/tensors/update_rules.hpp"

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
        reinterpret_cast<const float*>(there_g.address()), addresses, n);
      EXPECT_TRUE(same_bits(there, x)) << rule.name() << ", step " << step;
    }
    for (std::size_t s = 0; s < slots.size(); ++s)
      EXPECT_TRUE(same_bits(there_slots[s], slots[s])) << rule.name();
  }
}

TEST_F(OnACard, LargeElementsAreFound) {
  constexpr auto greatest = std::numeric_limits<float>::max();
  auto x = counted(100'000);
  const auto exceeds = [&](float limit) {
    const auto there = x.to(card);
    return backend().any_exceeds(
      card, reinterpret_cast<const float*>(there.address()), there.size(),
      limit);
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

TEST_F(OnACard, ADeviceThatIsNotThereIsAnErrorThatCountsThem) {
  const device missing{device_kind::cuda, backend().count()};
  EXPECT_EQ(error_of([&] { tensor::zeros({1}, dtype::float32, missing); }),
            "device " + to_string(missing) + " does not exist; there are "
              + std::to_string(backend().count()));
}

} // namespace
