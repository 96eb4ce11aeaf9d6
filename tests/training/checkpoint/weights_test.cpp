#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/training/small_jobs.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;

class Weights : public scratch_test {
protected:
  static models::model_description net(std::int64_t classes = 10) {
    return {.name = "net",
            .input = {28, 28, 1},
            .layers =
              models::stack(models::flatten{}, models::dense{4},
                            models::dense{.units = classes, .name = "head"})};
  }

  static model fresh(std::uint64_t seed, std::int64_t classes = 10) {
    return model{net(classes), adam{}, {.seed = seed}};
  }

  static std::string error_of(const std::function<void()>& fn) {
    try {
      fn();
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "no error";
  }
};

tensor value_of(const model& it, std::size_t i) {
  return it.variables()[i].value().detach().clone();
}

TEST_F(Weights, AreSetByNameInAllCopies) {
  runtime actors;
  const mirrored_strategy at_once{actors, {"cpu:0", "cpu:1"}};
  const auto in_turn = turns(2);
  for (const troupe::strategy& strategy :
       std::initializer_list<troupe::strategy>{in_turn, at_once}) {
    const auto scope = strategy.scope();
    auto it = fresh(1);
    const auto others = value_of(it, 0);
    const auto ones = tensor::full({4, 10}, 1);
    it.set_weights("head/kernel", ones);
    EXPECT_TRUE(same_bits(value_of(it, 2), ones));
    EXPECT_TRUE(same_bits(value_of(it, 0), others));
    // The replicas compare their copies at the start.
    it.fit(digits_200().batch(50));
    it.set_weights("head/kernel", ones);
    it.save(folder / "a");
    EXPECT_TRUE(same_bits(value_of(model::load(folder / "a"), 2), ones));
  }
}

TEST_F(Weights, AreRefusedWithTheNameAndBothShapes) {
  auto it = fresh(1);
  EXPECT_EQ(error_of([&] {
              it.set_weights("head/kernal", tensor::zeros({4, 10}));
            }),
            "the model \"net\" has no variable \"head/kernal\"; did you mean "
            "\"head/kernel\"? it has dense_1/kernel, dense_1/bias, "
            "head/kernel, head/bias");
  EXPECT_EQ(error_of([&] {
              it.set_weights("head/kernel", tensor::zeros({10, 4}));
            }),
            "the variable \"head/kernel\" is float32[4, 10], but the value is "
            "float32[10, 4]; exchange its axes: a kernel here is [in, out]");
  EXPECT_EQ(error_of([&] {
              it.set_weights("head/bias", tensor::zeros({10}, dtype::int32));
            }),
            "the variable \"head/bias\" is float32[10], but the value is "
            "int32[10]");
  turns(1).run([&](replica_context&) {
    EXPECT_THROW(it.set_weights("head/bias", tensor::zeros({10})),
                 std::logic_error);
  });
}

TEST_F(Weights, AreLoadedFromAModelOfAnotherArchitecture) {
  auto source = fresh(1);
  source.fit(digits_200().batch(50));
  source.save(folder / "a");
  auto it = fresh(2, 3);
  const auto head = value_of(it, 2);
  const auto file = folder / "a";
  // [doc:begin weights]
  // All variables but those of the last layer, which has other classes here.
  const auto names = it.load_weights(
    file, [](const std::string& name) { return !name.starts_with("head/"); });
  it.set_weights("head/bias", tensor::zeros({3}));
  // [doc:end]
  EXPECT_EQ(names,
            (std::vector<std::string>{"dense_1/kernel", "dense_1/bias"}));
  EXPECT_TRUE(same_bits(value_of(it, 0), value_of(source, 0)));
  EXPECT_TRUE(same_bits(value_of(it, 1), value_of(source, 1)));
  EXPECT_TRUE(same_bits(value_of(it, 2), head));
  EXPECT_EQ(it.steps(), 0u);
  auto all = fresh(2);
  EXPECT_EQ(all.load_weights(folder / "a").size(), 4u);
  EXPECT_EQ(all.weights_sha256(), source.weights_sha256());
}

TEST_F(Weights, ChangeNothingIfAFileDoesNotFit) {
  fresh(1).save(folder / "a");
  const auto file = "\"" + (folder / "a").string() + "\"";
  auto it = fresh(2, 3);
  const auto before = it.weights_sha256();
  EXPECT_EQ(error_of([&] { it.load_weights(folder / "a"); }),
            "the variable \"head/kernel\" is [4, 3], but [4, 10] in " + file);
  EXPECT_EQ(error_of([&] {
              it.load_weights(folder / "a", [](const auto&) { return false; });
            }),
            "no variable of the model \"net\" is selected to be loaded from "
              + file
              + "; it has dense_1/kernel, dense_1/bias, head/kernel, "
                "head/bias");
  model other{
    {"other", {2}, models::stack(models::dense{.units = 2, .name = "heat"})},
    sgd{}};
  EXPECT_EQ(error_of([&] { other.load_weights(folder / "a"); }),
            file
              + " has no variable \"heat/kernel\"; did you mean "
                "\"head/kernel\"? it has dense_1/kernel, dense_1/bias, "
                "head/kernel, head/bias");
  auto bytes = text_of("a");
  bytes[bytes.size() - 100] ^= 1;
  put("damaged", bytes);
  EXPECT_THROW(it.load_weights(folder / "damaged"), std::runtime_error);
  EXPECT_EQ(it.weights_sha256(), before);
}

} // namespace
