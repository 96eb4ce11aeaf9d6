#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/training/parameter_server/ids_of.hpp"
#include "troupe/tests/training/parameter_server/server_nodes.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/parameter_server_strategy.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"
#include "troupe/training/parameter_server/server_variable.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe {
namespace {

using namespace std::chrono_literals;
using parameter_server::fixed_shards_partitioner;

/// Returns 0, 1, 2, ...
tensor counted(const shape& dims) {
  tensor out{dims};
  const auto xs = out.mutable_data<float>();
  std::iota(xs.begin(), xs.end(), 0.0F);
  return out;
}

TEST(ServerVariable, IsDividedAmongServers) {
  runtime actors;
  const parameter_server_strategy on{
    actors, {.servers = 2, .partitioner = fixed_shards_partitioner(3)}};
  const auto w = on.make_variable("w", counted({8, 2}));
  EXPECT_EQ(w.name(), "w");
  EXPECT_EQ(w.sharding().shards(), 3u);
  EXPECT_EQ(w.servers(), (std::vector<std::uint32_t>{0, 1, 0}));
  EXPECT_TRUE(same_bits(w.value(), counted({8, 2})));
  const auto b = on.make_variable("b", tensor::full({}, 3));
  EXPECT_EQ(b.servers(), std::vector<std::uint32_t>{1});
  EXPECT_EQ(b.value().item<float>(), 3);
  const auto status = on.status();
  ASSERT_EQ(status.size(), 2u);
  EXPECT_EQ(status[0].parts, 2u);
  EXPECT_EQ(status[0].bytes, (3u + 2u) * 8u);
  EXPECT_EQ(status[1].bytes, 3u * 8u + 4u);
}

TEST(ServerVariable, CannotBeWrittenThroughItsValue) {
  runtime actors;
  const parameter_server_strategy on{actors, {.servers = 1}};
  const auto w = on.make_variable("w", counted({3}));
  auto seen = w.value();
  EXPECT_THROW(seen.mutable_data<float>(), std::logic_error);
  seen = seen.clone();
  seen.mutable_data<float>()[0] = 9;
  EXPECT_TRUE(same_bits(w.value(), counted({3})));
  // The servers can write what they got from a read-only handle.
  const auto copy = on.make_variable("copy", w.value());
  w.assign(counted({3}).read_only());
  for (const auto& one : {w, copy}) {
    one.assign_add(1);
    one.scatter_add(ids_of({0}), tensor::full({1}, 4));
    EXPECT_TRUE(same_bits(one.value(), tensor::of<float>({3}, {5, 2, 3})));
  }
}

TEST(ServerVariable, ChangesAllParts) {
  runtime actors;
  const parameter_server_strategy on{
    actors, {.servers = 2, .partitioner = fixed_shards_partitioner(2)}};
  const auto w = on.make_variable("w", counted({3}));
  w.assign_add(counted({3}));
  EXPECT_TRUE(same_bits(w.value(), tensor::of<float>({3}, {0, 2, 4})));
  w.assign_sub(1);
  EXPECT_TRUE(same_bits(w.value(), tensor::of<float>({3}, {-1, 1, 3})));
  auto given = counted({3});
  w.assign(given);
  given.mutable_data<float>()[0] = 9; // the variable has a copy
  EXPECT_TRUE(same_bits(w.value(), counted({3})));
}

/// The result is that of a variable with one part.
TEST(ServerVariable, A29ScattersRowsAsOneTensor) {
  runtime actors;
  const parameter_server_strategy divided{
    actors, {.servers = 3, .partitioner = fixed_shards_partitioner(3)}};
  const parameter_server_strategy whole{actors};
  const auto a = divided.make_variable("a", counted({32, 2}));
  const auto b = whole.make_variable("b", counted({32, 2}));
  ASSERT_EQ(a.sharding().range_of(0).size(), 11);
  ASSERT_EQ(a.sharding().range_of(2).size(), 10);
  const auto ids = ids_of({0, 10, 11, 12, 30, 31});
  const auto twice = ids_of({31, 0, 31, 11, 0, 5});
  for (const auto* const x : {&a, &b}) {
    x->scatter_add(ids, counted({6, 2}));
    x->scatter_sub(twice, counted({6, 2}));
    x->scatter_update(ids, counted({6, 2}));
    x->scatter_min(twice, counted({6, 2}));
    x->scatter_max(ids, tensor::full({6, 2}, 4));
  }
  EXPECT_TRUE(same_bits(a.value(), b.value()));
  EXPECT_FALSE(same_bits(b.value(), counted({32, 2})));
}

TEST(ServerVariable, LooksRowsUpInTheirOrder) {
  runtime actors;
  const parameter_server_strategy on{
    actors, {.servers = 2, .partitioner = fixed_shards_partitioner(3)}};
  const auto w = on.make_variable("w", counted({5, 2}));
  const auto ids = tensor::of<std::int32_t>({2, 2}, {4, 0, 4, 2});
  EXPECT_TRUE(same_bits(
    w.lookup(ids), tensor::of<float>({2, 2, 2}, {8, 9, 0, 1, 8, 9, 4, 5})));
  EXPECT_THROW(w.lookup(ids_of({1, 5})), std::out_of_range);
  EXPECT_THROW(w.lookup(tensor::zeros({1})), std::invalid_argument);
  const auto scalar = on.make_variable("scalar", tensor::full({}, 1));
  EXPECT_THROW(scalar.lookup(ids_of({0})), std::invalid_argument);
}

TEST(ServerVariable, IsInitialisedPartByPart) {
  runtime actors;
  const parameter_server_strategy on{
    actors, {.servers = 2, .partitioner = fixed_shards_partitioner(2)}};
  std::vector<std::int64_t> begins;
  const auto make = [&](const parameter_server::row_range& rows) {
    begins.push_back(rows.begin);
    return tensor::full({rows.size(), 1}, double(rows.begin));
  };
  const auto w = on.make_variable("w", tensor_spec{{5, 1}}, make);
  EXPECT_EQ(begins, (std::vector<std::int64_t>{0, 3}));
  EXPECT_TRUE(same_bits(w.value(), tensor::of<float>({5, 1}, {0, 0, 0, 3, 3})));
  EXPECT_THROW(on.make_variable("v", tensor_spec{{5, 2}}, make),
               std::invalid_argument);
}

TEST(ServerVariable, IsUpdatedByAnOptimizer) {
  runtime actors;
  const parameter_server_strategy on{
    actors, {.servers = 2, .partitioner = fixed_shards_partitioner(2)}};
  const std::vector<server_variable> all{on.make_variable("w", counted({3, 1})),
                                         on.make_variable("b", counted({2}))};
  const server_optimizer first{on, sgd{.learning_rate = 1, .momentum = 0.5F}};
  const server_optimizer second{on, sgd{.learning_rate = 1, .momentum = 0.5F}};
  const std::vector<parameter_gradient> gradients{
    sparse_rows{{3, 1}, ids_of({0, 2}), tensor::full({2, 1}, 1)},
    tensor::full({2}, 2)};
  first.apply(gradients, all);
  first.apply(gradients, all);
  second.apply(gradients, all);
  EXPECT_TRUE(
    same_bits(all[0].value(), tensor::of<float>({3, 1}, {-3.5F, 1, -1.5F})));
  EXPECT_TRUE(same_bits(all[1].value(), tensor::of<float>({2}, {-7, -6})));
  EXPECT_THROW(first.apply(std::vector<tensor>{tensor::zeros({3, 1})}, all),
               std::invalid_argument);
  EXPECT_THROW(
    first.apply(std::vector<tensor>{tensor::zeros({3, 1}), tensor::zeros({3})},
                all),
    std::invalid_argument);
  EXPECT_TRUE(
    same_bits(all[0].value(), tensor::of<float>({3, 1}, {-3.5F, 1, -1.5F})));
}

template <class F>
std::string error_of(F fn) {
  try {
    fn();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "none";
}

TEST(ServerVariable, SaysWhatDoesNotFit) {
  runtime actors;
  const parameter_server_strategy on{actors};
  const auto w = on.make_variable("w", counted({3, 2}));
  EXPECT_EQ(error_of([&] { w.assign_add(counted({3})); }),
            "assign_add: variable \"w\" is float32[3, 2], the value "
            "float32[3]");
  EXPECT_EQ(
    error_of([&] {
      w.scatter_add(ids_of({1}), counted({1, 3}));
    }),
    "rows int64[1] of variable \"w\", float32[3, 2], cannot have the values "
    "float32[1, 3]");
  EXPECT_EQ(error_of([&] { on.make_variable("w", counted({1})); }),
            "there is a variable \"w\" already");
  EXPECT_EQ(error_of([&] {
              parameter_server_strategy{actors, {.servers = 0}};
            }),
            "parameter_server_options: servers is 0; give at least 1");
  EXPECT_EQ(error_of([&] {
              parameter_server_strategy{actors, {.timeout = 0ms}};
            }),
            "parameter_server_options: timeout is 0 ms; give at least 1 ms");
  EXPECT_EQ(error_of([&] {
              on.make_variable("t", tensor::zeros({1}, dtype::boolean));
            }),
            "a variable on a parameter server cannot be bool[1]; use float32, "
            "float64, int32 or int64");
}

TEST(ServerVariable, OfIntegersTakesWholeNumbersOnly) {
  runtime actors;
  const parameter_server_strategy on{actors};
  for (const auto type : {dtype::int32, dtype::int64}) {
    const auto v = on.make_variable(std::string{to_string(type)},
                                    tensor::full({2}, 3, type));
    for (const double x : {0.5, -1e30, 1e30, std::nan(""), HUGE_VAL}) {
      EXPECT_THROW(v.assign(x), std::invalid_argument) << x;
      EXPECT_THROW(v.assign_add(x), std::invalid_argument) << x;
      EXPECT_THROW(v.assign_sub(x), std::invalid_argument) << x;
    }
    EXPECT_TRUE(same_bits(v.value(), tensor::full({2}, 3, type)));
    v.assign_add(-5.0);
    EXPECT_TRUE(same_bits(v.value(), tensor::full({2}, -2, type)));
  }
  const auto v = on.make_variable("v", tensor::full({2}, 3, dtype::int32));
  EXPECT_EQ(error_of([&] { v.assign_add(0.5); }),
            "the variable \"v\" is int32[2], and has no element 0.5; give a "
            "whole number that int32 has");
  EXPECT_THROW(v.assign(2147483648.0), std::invalid_argument);
  v.assign(-2147483648.0);
  v.assign_sub(1.0); // wraps around
  EXPECT_TRUE(
    same_bits(v.value(), tensor::full({2}, 2147483647.0, dtype::int32)));
}

// -- all functions for all dtypes ---------------------------------------------

struct variable_case {
  dtype type{};
  std::int64_t parts = 1;
  bool in_closure = false;
  bool on_nodes = false;
};

class VariableOfEachDtype : public ::testing::TestWithParam<variable_case> {
protected:
  VariableOfEachDtype() {
    parameter_server_options options;
    if (GetParam().on_nodes) {
      nodes = test::make_nodes(2);
      options = test::on(nodes, 1);
    }
    options.servers = 2;
    options.partitioner = fixed_shards_partitioner(GetParam().parts);
    strategy.emplace(actors, options);
    coordinator.emplace(*strategy);
  }

  /// Calls a function, in a closure if the case says so.
  template <class F>
  void call(F fn) {
    if (!GetParam().in_closure)
      return fn();
    coordinator->schedule(fn);
    coordinator->join();
  }

  tensor full(const shape& dims, double x) const {
    return tensor::full(dims, x, GetParam().type);
  }
  tensor rows(std::vector<double> first) const {
    tensor out{{std::int64_t(first.size()), 2}, dtype::float64};
    for (std::size_t i = 0; i < out.size(); ++i)
      out.mutable_data<double>()[i] = first[i / 2];
    return out.as(GetParam().type);
  }

  test::server_nodes nodes;
  runtime actors;
  std::optional<parameter_server_strategy> strategy;
  std::optional<cluster_coordinator> coordinator;
};

std::vector<variable_case> variable_cases() {
  std::vector<variable_case> out;
  for (const auto type :
       {dtype::float32, dtype::float64, dtype::int32, dtype::int64})
    for (const std::int64_t parts : {1, 3})
      for (const bool in_closure : {false, true})
        for (const bool on_nodes : {false, true})
          out.push_back({type, parts, in_closure, on_nodes});
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, VariableOfEachDtype,
                         ::testing::ValuesIn(variable_cases()),
                         [](const auto& x) {
                           return std::string{to_string(x.param.type)} + "In"
                                  + std::to_string(x.param.parts) + "Parts"
                                  + (x.param.in_closure ? "InClosures" : "")
                                  + (x.param.on_nodes ? "OnNodes" : "");
                         });

/// Each function is called with the changes of those before in the same
/// closure.
TEST_P(VariableOfEachDtype, HasAllFunctions) {
  const auto v = strategy->make_variable("v", full({5, 2}, 10));
  const auto ids = tensor::of<std::int32_t>({3}, {4, 0, 0});
  call([&] {
    EXPECT_TRUE(same_bits(v.value(), full({5, 2}, 10)));
    v.assign(full({5, 2}, 7));
    v.assign_add(3.0);
    v.assign_sub(full({5, 2}, 4));
    EXPECT_TRUE(same_bits(v.value(), full({5, 2}, 6)));
    EXPECT_TRUE(same_bits(v.lookup(ids), full({3, 2}, 6)));
    v.scatter_add(ids, rows({1, 2, 3}));
    EXPECT_TRUE(same_bits(v.value(), rows({11, 6, 6, 6, 7})));
    v.scatter_sub(ids, rows({1, 4, 4}));
    EXPECT_TRUE(same_bits(v.value(), rows({3, 6, 6, 6, 6})));
    v.scatter_min(ids, rows({5, 9, 2}));
    EXPECT_TRUE(same_bits(v.lookup(ids), rows({5, 2, 2})));
    v.scatter_max(ids, rows({1, 3, 4}));
    EXPECT_TRUE(same_bits(v.value(), rows({4, 6, 6, 6, 5})));
    v.scatter_update(ids, rows({8, 1, 9}));
  });
  EXPECT_TRUE(same_bits(v.value(), rows({9, 6, 6, 6, 8})));
  EXPECT_TRUE(same_bits(v.lookup(ids), rows({8, 9, 9})));
}

TEST_P(VariableOfEachDtype, CanBeAScalarOrAVector) {
  const auto scalar = strategy->make_variable("s", full({}, 10));
  const auto vector = strategy->make_variable("v", full({7}, 10));
  const auto ids = tensor::of<std::int64_t>({2}, {6, 1});
  call([&] {
    scalar.assign_add(2.0);
    vector.scatter_sub(ids, full({2}, 3));
    EXPECT_TRUE(same_bits(scalar.value(), full({}, 12)));
    EXPECT_TRUE(same_bits(vector.lookup(ids), full({2}, 7)));
    EXPECT_THROW(scalar.scatter_add(ids, full({2}, 3)), std::invalid_argument);
  });
  EXPECT_TRUE(same_bits(scalar.value(), full({}, 12)));
  EXPECT_TRUE(same_bits(vector.lookup(ids), full({2}, 7)));
}

} // namespace
} // namespace troupe
