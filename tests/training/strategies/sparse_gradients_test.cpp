#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/embedding_lookup.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"
#include "troupe/tests/training/strategies/workers.hpp"
#include "troupe/training/loop/model/optimizer.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

// Loops that train a table by sparse gradients.

namespace {

using namespace troupe;
using namespace troupe::test;

/// Returns the text of the exception that a call throws.
std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

constexpr std::uint32_t replicas = 4;
/// So many ids that the rows of all replicas have more elements than one slice
/// of an update, which ends within a row.
constexpr std::size_t steps = 6, ids_per_step = 800;

/// What a replica reads in a step: some ids occur several times, and most rows
/// on one replica only.
struct reading {
  reading(std::uint32_t replica, std::size_t step, std::int64_t rows,
          std::int64_t width) {
    std::mt19937 rng{std::uint32_t(100 * step + replica)};
    std::vector<std::int64_t> list;
    std::vector<float> factors;
    for (std::size_t i = 0; i < ids_per_step; ++i)
      list.push_back(rng() % 4 == 0 ? std::int64_t(rng() % 5)
                                    : std::int64_t(rng() % std::size_t(rows)));
    for (std::size_t i = 0; i < ids_per_step * std::size_t(width); ++i)
      factors.push_back(float(rng() % 2001) / 1000 - 1);
    ids = tensor::of<std::int64_t>({ids_per_step}, list);
    weights = tensor::of<float>({ids_per_step, width}, factors);
  }
  tensor ids, weights;
};

/// The gradient of the loss by the rows of the table.
parameter_gradients gradients_of(const std::vector<variable>& variables,
                                 const reading& x, bool sparse) {
  tape t;
  const auto on = variables[0].device();
  const auto loss =
    embedding_lookup(variables[0].value(), x.ids.to(on)) * x.weights.to(on);
  if (sparse)
    return t.sparse_gradients(loss, variables);
  const auto dense = t.gradient(loss, variables);
  return {dense.begin(), dense.end()};
}

/// Trains the first variable of a small model.
/// @returns its value after the last step.
tensor train(const strategy& on, const update_rule& rule, reduce_op op) {
  const auto scope = on.scope();
  auto it = small_model();
  optimizer own{rule};
  const std::vector variables{it.variables()[0]};
  for (std::size_t step = 0; step < steps; ++step)
    on.run([&](replica_context& self) {
      const auto& dims = variables[0].dims();
      const reading x{self.replica_id(), step, dims[0], dims[1]};
      const auto gradients =
        self.all_reduce(op, gradients_of(variables, x, true));
      EXPECT_TRUE(gradients[0].is_sparse());
      own.apply(gradients, variables);
    });
  EXPECT_EQ(own.steps(), steps);
  return it.variables()[0].value().clone().detach();
}

/// Trains by the definition: adds duplicates in the order of their occurrence,
/// then the canonical tree of four replicas, then the rule on these rows.
tensor train_by_definition(const update_rule& rule, reduce_op op) {
  const auto on = turns(1);
  const auto scope = on.scope();
  const auto it = small_model();
  auto value = it.variables()[0].value().detach().clone();
  const auto dims = value.dims();
  const auto width = std::size_t(dims[1]);
  std::vector<std::vector<float>> slots;
  for (std::size_t s = 0; s < rule.slots(); ++s)
    slots.emplace_back(value.size(), rule.initial_slot_value(s));
  for (std::size_t step = 0; step < steps; ++step) {
    std::vector<std::map<std::int64_t, std::vector<float>>> by_replica(
      replicas);
    for (std::uint32_t r = 0; r < replicas; ++r) {
      const reading x{r, step, dims[0], dims[1]};
      for (std::size_t i = 0; i < ids_per_step; ++i) {
        const auto part = x.weights.data<float>().subspan(i * width, width);
        auto [row, is_new] = by_replica[r].try_emplace(
          x.ids.data<std::int64_t>()[i], part.begin(), part.end());
        for (std::size_t k = 0; !is_new && k < width; ++k)
          row->second[k] += part[k];
      }
    }
    const auto add = [&](auto a, const auto& b) {
      for (const auto& [id, row] : b) {
        auto [to, is_new] = a.try_emplace(id, row);
        for (std::size_t k = 0; !is_new && k < width; ++k)
          to->second[k] += row[k];
      }
      return a;
    };
    for (auto& [id, row] : add(add(by_replica[0], by_replica[1]),
                               add(by_replica[2], by_replica[3]))) {
      const auto at = std::size_t(id) * width;
      auto gradient = row;
      for (auto& x : gradient)
        x = op == mean ? float(double(x) / replicas) : x;
      std::vector<std::span<float>> parts;
      for (auto& slot : slots)
        parts.push_back(std::span{slot}.subspan(at, width));
      rule.apply(value.mutable_data<float>().subspan(at, width), gradient,
                 parts, step + 1, rule.learning_rate());
    }
  }
  return value;
}

class SparseGradients : public ::testing::TestWithParam<update_rule> {};

TEST_P(SparseGradients, GiveTheSameBitsUnderEveryStrategy) {
  for (const auto op : {sum, mean}) {
    const auto expected = train_by_definition(GetParam(), op);
    EXPECT_TRUE(same_bits(train(turns(replicas), GetParam(), op), expected));
    runtime actors;
    const mirrored_strategy mirrored{actors,
                                     {"cpu:0", "cpu:1", "cpu:2", "cpu:3"}};
    EXPECT_TRUE(same_bits(train(mirrored, GetParam(), op), expected));
    for (const std::uint32_t workers : {2, 4})
      expect_success_on_workers(
        workers, replicas / workers, [&](const strategy& on, std::uint32_t) {
          EXPECT_TRUE(same_bits(train(on, GetParam(), op), expected))
            << workers << " workers";
        });
  }
}

INSTANTIATE_TEST_SUITE_P(
  Rules, SparseGradients,
  ::testing::Values(sgd{.learning_rate = 0.1f},
                    sgd{.learning_rate = 0.1f, .momentum = 0.9f},
                    adam{.learning_rate = 0.01f},
                    adamw{.learning_rate = 0.01f, .weight_decay = 0.1f},
                    adagrad{.learning_rate = 0.1f},
                    ftrl{.learning_rate = 0.1f,
                         .l1_regularization_strength = 0.01f}),
  [](const auto& x) {
    return std::string{x.param.name()} + std::to_string(x.index);
  });

/// Without momentum, rows without a gradient do not move.
TEST(SparseGradients, OfSgdGiveTheBitsOfDenseOnes) {
  const auto on = turns(replicas);
  const auto scope = on.scope();
  auto sparse = small_model(), dense = small_model();
  for (auto* it : {&sparse, &dense}) {
    optimizer own{sgd{.learning_rate = 0.1f}};
    for (std::size_t step = 0; step < steps; ++step)
      on.run([&](replica_context& self) {
        const std::vector variables{it->variables()[0]};
        const auto& dims = variables[0].dims();
        const reading x{self.replica_id(), step, dims[0], dims[1]};
        own.apply(
          self.all_reduce(sum, gradients_of(variables, x, it == &sparse)),
          variables);
      });
  }
  EXPECT_EQ(sparse.weights_sha256(), dense.weights_sha256());
}

/// Dense and sparse gradients in one call; one replica lacks all rows.
TEST(SparseGradients, MayStandBesideDenseOnes) {
  for (const auto& on : {strategy{turns(1)}, strategy{turns(3)}}) {
    const auto scope = on.scope();
    on.run([&](replica_context& self) {
      const shape dims{4, 1};
      const auto id = std::int64_t(self.replica_id());
      parameter_gradients mine{
        tensor::full({2}, double(id + 1)),
        id == 1 ? sparse_rows::zeros({dims, dtype::float32})
                : sparse_rows{dims, tensor::of<std::int64_t>({1}, {id}),
                              tensor::full({1, 1}, 7)},
        tensor::full({}, double(id), dtype::int64)};
      const auto all = self.all_reduce(sum, mine);
      const bool alone = self.num_replicas_in_sync() == 1;
      EXPECT_EQ(all[0].dense().data<float>()[1], alone ? 1 : 6);
      ASSERT_TRUE(all[1].is_sparse());
      const auto rows = all[1].dense();
      EXPECT_EQ(rows.data<float>()[0], 7);
      EXPECT_EQ(rows.data<float>()[1], 0);
      EXPECT_EQ(rows.data<float>()[2], alone ? 0 : 7);
      EXPECT_EQ(all[2].dense().item<std::int64_t>(), alone ? 0 : 3);
      if (alone) { // the result shares no memory with the input
        EXPECT_NE(all[1].elements().raw(), mine[1].elements().raw());
        EXPECT_NE(all[1].rows().indices().raw(),
                  mine[1].rows().indices().raw());
      }
    });
  }
}

TEST(SparseGradients, OfOneReplicaOnlyAreAnError) {
  const auto on = turns(3);
  const auto scope = on.scope();
  for (const auto type : {dtype::float32, dtype::float64}) {
    const auto text = text_of([&] {
      on.run([&](replica_context& self) {
        parameter_gradients mine{tensor::zeros({4, 1}, type)};
        if (self.replica_id() == 2)
          mine[0] = sparse_rows::zeros({{4, 1}, type});
        self.all_reduce(sum, mine);
      });
    });
    EXPECT_NE(text, "") << to_string(type);
  }
}

TEST(SparseGradients, OfDifferentTensorsAreAnError) {
  const auto on = turns(2);
  const auto scope = on.scope();
  const auto text_with = [&](const sparse_rows& of_replica_1) {
    return text_of([&] {
      on.run([&](replica_context& self) {
        parameter_gradients mine{
          self.replica_id() == 1
            ? of_replica_1
            : sparse_rows::zeros({{4, 2}, dtype::float32})};
        self.all_reduce(sum, mine);
      });
    });
  };
  EXPECT_EQ(text_with(sparse_rows::zeros({{4, 2}, dtype::float32})), "");
  for (const tensor_spec& other :
       {tensor_spec{{5, 2}, dtype::float32},
        tensor_spec{{4, 3}, dtype::float32}, tensor_spec{{4}, dtype::float32},
        tensor_spec{{4, 2}, dtype::float64}}) {
    const auto said = text_with(sparse_rows::zeros(other));
    const auto of_replica_1 = " a sparse gradient of " + to_string(other);
    EXPECT_NE(said.find("replica 1"), said.npos) << said;
    EXPECT_NE(said.find(of_replica_1), said.npos) << said;
    EXPECT_NE(said.find(" a sparse gradient of float32[4, 2]"), said.npos)
      << said;
  }
}

/// All replicas of a job of one process see that one of them has other rows.
TEST(SparseGradients, ThatDifferBetweenReplicasAreAnError) {
  const auto on = turns(3);
  const auto scope = on.scope();
  auto it = small_model();
  optimizer own{adam{}};
  const auto before = it.weights_sha256();
  for (const bool other_row : {true, false}) {
    const auto text = text_of([&] {
      on.run([&](replica_context& self) {
        const std::vector variables{it.variables()[0]};
        const auto& dims = variables[0].dims();
        const bool differs = self.replica_id() == 1;
        const parameter_gradients mine{sparse_rows{
          dims, tensor::of<std::int64_t>({1}, {differs && other_row ? 3 : 2}),
          tensor::full({1, dims[1]}, differs && !other_row ? 2 : 1)}};
        own.apply(mine, variables);
      });
    });
    EXPECT_NE(text.find("the gradients of the variable \"dense_1/kernel\" "
                        "differ: replica 1 has other values than replica 0"),
              std::string::npos)
      << text;
  }
  EXPECT_EQ(it.weights_sha256(), before);
}

/// The rows are added on the device, and one call updates them all.
TEST_P(SparseGradients, OnADeviceHaveTheBitsOfTheCpu) {
  const auto on = [&](const char* name) {
    return train(one_device_strategy{name}, GetParam(), sum);
  };
  const auto expected = on("cpu:0");
  simulated_devices devices;
  const auto got = on("gpu:0");
  EXPECT_TRUE(same_bits(got, expected));
  EXPECT_EQ(devices.row_sums, int(steps));
  EXPECT_EQ(devices.updates, int(steps));
}

} // namespace
