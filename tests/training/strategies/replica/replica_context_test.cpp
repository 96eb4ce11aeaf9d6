#include "troupe/tests/training/strategies/clusters.hpp"
#include "troupe/training/loop/model/optimizer.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;
using namespace troupe::test;

/// Expects that no result of a collective shares memory with an argument. The
/// arguments are overwritten after the calls.
void expect_unshared_results(replica_context& self) {
  const auto replicas = float(self.num_replicas_in_sync());
  const auto floats = tensor::full({4}, 1), integers = tensor::full({2}, 1);
  const auto whole = tensor::full({}, 1, dtype::int32);
  tensors both;
  both.push_back(floats);
  both.push_back(integers);
  const auto total = self.all_reduce(sum, floats);
  const auto average = self.all_reduce(mean, floats);
  const auto totals = self.all_reduce(sum, both);
  const auto packs = self.all_reduce(sum, both, {.bytes_per_pack = 1});
  const auto count = self.all_reduce(sum, whole);
  const auto gathered = self.all_gather(integers);
  const auto tensors_of_all = self.all_gather_list(integers);
  const auto root = self.broadcast(integers);
  auto writable = floats, writable_y = integers, writable_whole = whole;
  writable.mutable_data<float>()[0] = 100;
  writable_y.mutable_data<float>()[0] = 100;
  writable_whole.mutable_data<std::int32_t>()[0] = 100;
  EXPECT_EQ(total.data<float>()[0], replicas);
  EXPECT_EQ(average.data<float>()[0], 1.0f);
  EXPECT_EQ(totals[0].data<float>()[0], replicas);
  EXPECT_EQ(totals[1].data<float>()[0], replicas);
  EXPECT_EQ(packs[0].data<float>()[0], replicas);
  EXPECT_EQ(packs[1].data<float>()[0], replicas);
  EXPECT_EQ(count.item<std::int32_t>(), std::int32_t(replicas));
  EXPECT_EQ(gathered.data<float>()[0], 1.0f);
  EXPECT_EQ(tensors_of_all[0].data<float>()[0], 1.0f);
  EXPECT_EQ(root.data<float>()[0], 1.0f);
}

TEST(ReplicaContext, ResultsShareNoMemoryWithArguments) {
  runtime actors;
  expect_unshared_results(*get_replica_context());
  default_strategy{}.run(expect_unshared_results);
  for (const std::uint32_t replicas : {1, 2, 3})
    turns(replicas).run(expect_unshared_results);
  mirrored_strategy{actors, {"cpu:0"}}.run(expect_unshared_results);
  mirrored_strategy{actors, {"cpu:0", "cpu:1"}}.run(expect_unshared_results);
}

/// Calls that differ between two replicas.
struct different_calls {
  std::function<void(replica_context&)> fn;
  std::vector<std::string> texts; ///< In the error.
};

std::vector<different_calls> all_different_calls() {
  const auto of = [](std::uint32_t id, const shape& a, const shape& b) {
    return tensor::full(id == 0 ? a : b, 1);
  };
  return {
    {[of](replica_context& self) {
       self.all_reduce(sum, of(self.replica_id(), {2, 3}, {3, 2}));
     },
     {"all_reduce(sum) of float32[2, 3]", "all_reduce(sum) of float32[3, 2]"}},
    {[of](replica_context& self) {
       const auto id = self.replica_id();
       const auto common = tensor::full({1}, 1);
       self.all_reduce(sum, common);
       tensors both;
       both.push_back(of(id, {4}, {5}));
       both.push_back(of(id, {5}, {4}));
       self.all_reduce(sum, both);
     },
     {"2 tensors, of which tensor 0 is float32[4] as collective 1 of the step|"
      "2 tensors, of which tensor 0 is float32[4];",
      "2 tensors, of which tensor 0 is float32[5]"}},
    {[](replica_context& self) {
       self.all_reduce(self.replica_id() == 0 ? sum : mean,
                       tensor::full({4}, 1));
     },
     {"all_reduce(sum) of float32[4]", "all_reduce(mean) of float32[4]"}},
    {[](replica_context& self) {
       self.all_reduce(self.replica_id() == 0 ? sum : mean,
                       tensor::full({4}, 1, dtype::float64));
     },
     {"all_reduce(sum) of float64[4]", "all_reduce(mean) of float64[4]"}},
    {[](replica_context& self) {
       self.broadcast(tensor::full({2}, 5), self.replica_id());
     },
     {"broadcast from replica 0", "broadcast from replica 1"}},
    {[](replica_context& self) {
       self.all_gather(tensor::full({2, 2}, 1), int(self.replica_id()));
     },
     {"all_gather along axis 0", "all_gather along axis 1"}},
    {[](replica_context& self) {
       const auto x = tensor::full({2}, 1);
       if (self.replica_id() == 0)
         self.all_gather(x);
       else
         self.all_gather_list(x);
     },
     {"all_gather along axis 0", "all_gather_list"}},
  };
}

/// Expects that an error is of a type, and names some calls that differ.
template <class Error = std::logic_error>
void expect_named(const std::exception_ptr& thrown,
                  const different_calls& calls) {
  try {
    ASSERT_TRUE(thrown) << calls.texts.front();
    std::rethrow_exception(thrown);
  } catch (const Error& e) {
    const std::string said = e.what();
    auto texts = calls.texts;
    texts.insert(texts.end(), {"replica 0", "replica 1"});
    for (const auto& text : texts) {
      const auto cut = text.find('|');
      EXPECT_TRUE(
        said.find(text.substr(0, cut)) != said.npos
        || (cut != text.npos && said.find(text.substr(cut + 1)) != said.npos))
        << "\"" << text << "\" is missing in: " << said;
    }
  } catch (...) {
    ADD_FAILURE() << "an error of another type";
  }
}

std::exception_ptr error_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

TEST(ReplicaContext, CallsThatDifferAreNamedInOneProcess) {
  runtime actors;
  for (const auto& calls : all_different_calls())
    for (const auto& two :
         {strategy{mirrored_strategy{actors, {"cpu:0", "cpu:1"}}},
          strategy{turns(2)}}) {
      expect_named(error_of([&] { two.run(calls.fn); }), calls);
      // The strategy goes on to work.
      EXPECT_EQ(two
                  .run([](replica_context& self) {
                    return self.all_reduce(sum, tensor::full({}, 1));
                  })[0]
                  .item<float>(),
                2.0f);
    }
}

TEST(ReplicaContext, CallsThatDifferAreNamedInAllWorkers) {
  auto all = all_different_calls();
  all.pop_back(); // another collective, which ends the step at once
  for (const auto& calls : all) {
    const auto program = [&](const strategy& on, std::uint32_t) {
      const auto scope = on.scope();
      auto model = small_model();
      const auto before = model.weights_sha256();
      expect_named(error_of([&] {
                     on.run([&](replica_context& self) {
                       tensors gradients;
                       for (const auto& x : model.variables())
                         gradients.push_back(tensor::full(x.dims(), 1));
                       model.optimizer().apply(gradients, model.variables());
                       calls.fn(self);
                     });
                   }),
                   calls);
      EXPECT_EQ(model.weights_sha256(), before) << "the step is undone";
      const auto sums = on.run([](replica_context& self) {
        return self.all_reduce(sum, tensor::full({}, 1));
      });
      EXPECT_EQ(sums.values().front().item<float>(), 2.0f);
    };
    expect_success_on_workers(2, 1, program);
    expect_nothing_thrown(run_on_cluster(2, {}, program));
  }
}

// These tensors are gathered, and added by each replica. The worker that finds
// the difference first may end the step of the other one.
TEST(ReplicaContext, IntegersThatDifferAreNamedInAllWorkers) {
  const std::vector<different_calls> all{
    {[](replica_context& self) {
       self.all_reduce(sum,
                       tensor::full({4 + self.replica_id()}, 1, dtype::int64));
     },
     {"all_reduce(sum) of int64[4]", "all_reduce(sum) of int64[5]",
      "as collective 0 of the step"}},
    {[](replica_context& self) {
       const auto type = self.replica_id() == 0 ? dtype::int32 : dtype::int64;
       self.broadcast(tensor::full({2}, 5), 0);
       self.all_reduce(sum, tensor::full({4}, 1, type));
     },
     {"all_reduce(sum) of int32[4]", "all_reduce(sum) of int64[4]",
      "as collective 1 of the step"}},
    {[](replica_context& self) {
       self.all_gather(tensor::full({2, 1 + self.replica_id()}, 1));
     },
     {"holds float32[2, 2]", "float32[2, 1]", "along axis 0"}},
  };
  for (const auto& calls : all) {
    const auto program = [&](const strategy& on, std::uint32_t) {
      expect_named<std::exception>(error_of([&] { on.run(calls.fn); }), calls);
    };
    expect_success_on_workers(2, 1, program);
  }
}

TEST(ReplicaContext, ReducesAndGathersThatDifferAreNamedInAllWorkers) {
  const different_calls reduces{
    {}, {"all_reduce(sum) of float32[2]", "all_reduce(mean) of float32[2]"}};
  const different_calls gathers{
    {}, {"all_gather along axis 0", "all_gather along axis 1"}};
  const auto program = [&](const strategy& on, std::uint32_t w) {
    const auto values =
      on.values_from([](std::uint32_t) { return tensor::full({2}, 1); });
    expect_named(error_of([&] { on.reduce(w == 0 ? sum : mean, values); }),
                 reduces);
    const auto squares = on.values_from([](std::uint32_t) {
      return tensor::full({2, 2}, 1);
    });
    expect_named(error_of([&] { on.gather(squares, int(w)); }), gathers);
    EXPECT_EQ(on.reduce(sum, values).data<float>()[1], 2.0f);
  };
  expect_success_on_workers(2, 1, program);
  expect_nothing_thrown(run_on_cluster(2, {}, program));
}

TEST(CallComparison, CallsRoundTripAsText) {
  const replica_calls calls{
    {.op = mean, .specs = {{{2, 3}, dtype::float32}, {{}, dtype::int64}}},
    {.called = replica_call::kind::all_gather, .axis = -1},
    {.called = replica_call::kind::all_gather_list},
    {.called = replica_call::kind::broadcast, .root = 7}};
  const auto text = encode_calls(calls);
  ASSERT_TRUE(decode_calls(text));
  EXPECT_EQ(*decode_calls(text), calls);
  EXPECT_EQ(hash_of(*decode_calls(text)), hash_of(calls));
  for (std::size_t cut = 0; cut < text.size(); ++cut)
    EXPECT_FALSE(decode_calls(text.substr(0, cut))) << cut;
  const std::vector<std::string> fewer{encode_calls({calls[0], calls[1]}),
                                       encode_calls({calls[0]})};
  EXPECT_THROW(check_equal_calls(fewer), std::logic_error);
}

} // namespace
