#include "simulated_device.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/detail/op_check_cases.hpp"
#include "troupe/tensors/op_check.hpp"
#include "troupe/tensors/ops/add_in_place.hpp"
#include "troupe/tensors/ops/all.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/dense.hpp"
#include "troupe/tensors/ops/embedding_lookup.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/to_device.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tensors/variable.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <new>

namespace {

using namespace troupe;
using namespace troupe::test;

constexpr device other_gpu{device_kind::cuda, 1};

std::string error_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

tensor one_to_six() {
  return tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
}

// -- storage and copies -------------------------------------------------------

TEST(DeviceTensor, IsCopiedThereAndBack) {
  simulated_devices devices;
  const auto there = one_to_six().to(gpu);
  EXPECT_EQ(there.device(), gpu);
  EXPECT_EQ(there.spec(), one_to_six().spec());
  const auto further = there.to(other_gpu);
  EXPECT_EQ(further.device(), other_gpu);
  EXPECT_EQ(further.to({}).device(), device{});
  EXPECT_TRUE(same_bits(further.to({}), one_to_six()));
  EXPECT_TRUE(same_bits(further, there));
}

TEST(DeviceTensor, IsSharedIfItIsThereAlready) {
  simulated_devices devices;
  const auto here = one_to_six();
  EXPECT_TRUE(here.to({}).shares_storage_with(here));
  EXPECT_TRUE(here.to({device_kind::cpu, 3}).shares_storage_with(here));
  const auto there = here.to(gpu);
  EXPECT_TRUE(there.to(gpu).shares_storage_with(there));
  EXPECT_FALSE(tensor{}.to(gpu));
}

TEST(DeviceTensor, ViewsAndClonesKeepTheDevice) {
  simulated_devices devices;
  const auto there = one_to_six().to(gpu);
  for (const auto& view :
       {there.slice(1, 3), there.range(2, 6), there.reshaped({6})}) {
    EXPECT_EQ(view.device(), gpu);
    EXPECT_TRUE(view.shares_storage_with(there));
  }
  EXPECT_TRUE(same_bits(there.slice(1, 3), one_to_six().slice(1, 3)));
  const auto copy = there.clone();
  EXPECT_EQ(copy.device(), gpu);
  EXPECT_FALSE(copy.shares_storage_with(there));
  EXPECT_TRUE(same_bits(copy, there));
}

TEST(DeviceTensor, IsNotReadOnTheHost) {
  simulated_devices devices;
  auto there = tensor::zeros({64, 10}, dtype::float32, gpu);
  const std::string text =
    "float32[64, 10] is on cuda:0 and cannot be read or written on the host; "
    "copy it with to()";
  EXPECT_EQ(error_of([&] { there.data<float>(); }), text);
  EXPECT_EQ(error_of([&] { there.mutable_data<float>(); }), text);
  EXPECT_EQ(error_of([&] { there.raw(); }), text);
}

TEST(DeviceTensor, ConstantsAndItemsWorkOnADevice) {
  simulated_devices devices;
  EXPECT_EQ(tensor::full({}, 3, dtype::int64, gpu).item<std::int64_t>(), 3);
  auto filled = tensor::full({4}, 2, dtype::float32, gpu);
  EXPECT_EQ(filled.device(), gpu);
  filled.slice(1, 3).set_zero();
  EXPECT_TRUE(same_bits(filled, tensor::of<float>({4}, {2, 0, 0, 2})));
}

TEST(DeviceTensor, CopyFromCopiesBetweenDevices) {
  simulated_devices devices;
  auto a = tensor::zeros({3, 2}, dtype::float32, gpu);
  a.copy_from(one_to_six());
  auto b = tensor::zeros({3, 2}, dtype::float32, other_gpu);
  b.slice(0, 2).copy_from(a.slice(1, 3));
  EXPECT_TRUE(same_bits(b, tensor::of<float>({3, 2}, {3, 4, 5, 6, 0, 0})));
}

TEST(DeviceTensor, IsConvertedOnTheDevice) {
  simulated_devices devices;
  const auto there = one_to_six().to(gpu);
  const int copies = devices.copies;
  for (const auto type : {dtype::bfloat16, dtype::float64, dtype::int32}) {
    const auto converted = there.as(type);
    EXPECT_EQ(converted.device(), gpu);
    EXPECT_EQ(devices.copies, copies);
    EXPECT_TRUE(same_bits(converted.to({}), one_to_six().as(type)));
    devices.copies = copies;
  }
}

TEST(DeviceTensor, MemoryIsCountedAndLimited) {
  simulated_devices devices;
  devices.limit = 1000;
  const auto first = tensor::zeros({100}, dtype::float32, gpu);
  EXPECT_EQ(devices.used(gpu).live, 400u);
  EXPECT_EQ(error_of([&] {
              tensor({{151}, dtype::float32}, gpu);
            }),
            "cuda:0 has 1000 bytes, of which 600 are free; asked for 604");
  // The other device and this one can be used further.
  EXPECT_TRUE(tensor({{151}, dtype::float32}, other_gpu));
  EXPECT_TRUE(tensor({{150}, dtype::float32}, gpu));
  EXPECT_EQ(devices.used(gpu).live, 400u);
}

TEST(DeviceTensor, PinnedMemoryIsReadOnTheHost) {
  const tensor_spec spec{{3, 2}, dtype::float32};
  auto plain = tensor::pinned(spec, device_kind::cuda); // there is no device
  EXPECT_EQ(plain.mutable_data<float>().size(), 6u);
  simulated_devices devices;
  auto pinned = tensor::pinned(spec, device_kind::cuda);
  EXPECT_EQ(pinned.device(), device{});
  pinned.copy_from(one_to_six());
  EXPECT_EQ(pinned.data<float>()[5], 6);
  EXPECT_TRUE(same_bits(pinned.to(gpu), one_to_six()));
}

TEST(DeviceTensor, NeedsADevice) {
  const auto x = one_to_six();
  {
    const simulated_devices none{0};
    EXPECT_EQ(error_of([&] { x.to(gpu); }),
              "device cuda:0 does not exist; there are 0");
  }
  simulated_devices devices;
  EXPECT_EQ(error_of([&] {
              x.to({device_kind::cuda, 2});
            }),
            "device cuda:2 does not exist; there are 2");
}

TEST(DeviceTensor, AnAllocationThatFailsReleasesAll) {
  simulated_devices devices;
  devices.limit = 1000;
  const auto before = memory::used().live;
  EXPECT_THROW(tensor({{251}, dtype::float32}, gpu), device_error);
  EXPECT_THROW(tensor::pinned({{251}, dtype::float32}, device_kind::cuda),
               std::bad_alloc);
  EXPECT_EQ(memory::used().live, before);
}

TEST(DeviceTensor, MayBeEmpty) {
  simulated_devices devices;
  const auto empty = tensor::zeros({0, 3}, dtype::float32, gpu);
  EXPECT_EQ(empty.device(), gpu);
  EXPECT_EQ(empty.clone().as(dtype::bfloat16).to({}).dims(), (shape{0, 3}));
  EXPECT_TRUE(tensor::pinned({{0}, dtype::float32}, device_kind::cuda));
}

TEST(DeviceTensor, OverlappingViewsAreCopied) {
  simulated_devices devices;
  const auto there = one_to_six().reshaped({6}).to(gpu);
  there.slice(1, 6).copy_from(there.slice(0, 5));
  EXPECT_TRUE(same_bits(there, tensor::of<float>({6}, {1, 1, 2, 3, 4, 5})));
}

// -- ops ----------------------------------------------------------------------

TEST(DeviceOp, InputsOnTwoDevicesAreNamed) {
  simulated_devices devices;
  const auto x = one_to_six();
  EXPECT_EQ(error_of([&] { x.to(gpu) + x; }),
            "add: input 1, float32[3, 2], is on cpu:0, but input 0, "
            "float32[3, 2], is on cuda:0; copy one of them with to()");
  EXPECT_NE(error_of([&] { x.to(gpu) + x.to(other_gpu); }).find("cuda:1"),
            std::string::npos);
}

TEST(DeviceOp, WithoutKernelsIsNamed) {
  simulated_devices devices;
  devices.without_kernels = "relu";
  const auto x = one_to_six().to(gpu);
  EXPECT_EQ(error_of([&] { apply(*find_op("relu"), {x}); }),
            "relu: no kernel for float32 on cuda:0; copy the inputs with to()");
}

TEST(DeviceOp, NumbersAreMadeOnTheDevice) {
  simulated_devices devices;
  const auto x = one_to_six();
  EXPECT_TRUE(same_bits(1 - x.to(gpu) * 2.5 / 3, 1 - x * 2.5 / 3));
}

/// A program can define an op for float32 on a device only.
TEST(DeviceOp, OfAProgramHasKernelsForADevice) {
  simulated_devices devices;
  devices.without_kernels = "negate";
  auto own = *find_op("negate");
  const std::array kernels{*own.find_kernels(dtype::float64),
                           op_kernels{dtype::float32,
                                      [](op_call& c) {
                                        const auto on_host = c.in[0].to({});
                                        c.out[0].copy_from(
                                          apply(*find_op("negate"), {on_host}));
                                      },
                                      nullptr, device_kind::cuda}};
  own.kernels = kernels;
  const auto y = apply(own, {one_to_six().to(gpu)});
  EXPECT_EQ(y.device(), gpu);
  EXPECT_EQ(y.slice(2, 3).range(1, 2).item<float>(), -6);
  EXPECT_NE(error_of([&] { apply(own, {one_to_six()}); }), "no error");
}

TEST(DeviceOp, AddsInPlace) {
  simulated_devices devices;
  for (const auto type : {dtype::float32, dtype::float64, dtype::bfloat16}) {
    const auto x = one_to_six().as(type);
    auto here = x.clone();
    auto there = x.to(gpu);
    add_in_place(here, x);
    add_in_place(there, x.to(gpu));
    EXPECT_TRUE(same_bits(here, there));
    EXPECT_EQ(there.device(), gpu);
    EXPECT_NE(error_of([&] { add_in_place(there, x); }).find("cpu:0"),
              std::string::npos);
    tape recording;
    auto held = recording.watch(there);
    const auto square = held * held;
    EXPECT_NE(error_of([&] {
                add_in_place(held, there);
              }).find("while a tape needs it"),
              std::string::npos);
  }
}

/// The results and gradients of an op, by a tape.
tensors results_of(const op& definition, const op_case& tested,
                   const tensors& in) {
  tape recording;
  tensors watched, out;
  std::vector<tensor> inputs;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool has_gradient =
      definition.input(i).differentiable && is_float(in[i].type());
    inputs.push_back(has_gradient ? recording.watch(in[i]) : in[i]);
    if (has_gradient)
      watched.push_back(inputs.back());
  }
  const auto results = apply_all(definition, inputs, tested.options);
  tensor loss;
  for (const auto& x : results) {
    EXPECT_EQ(x.device(), in[0].device());
    out.push_back(x.detach());
    if (!is_recorded(x))
      continue;
    const auto part = reduce_sum(x * x);
    loss = loss ? loss + part : part;
  }
  // The kernels of the op then add to a gradient.
  for (const auto& x : watched)
    if (loss && loss.type() == x.type())
      loss = loss + reduce_sum(x * x);
  if (loss)
    for (const auto& x : recording.gradient(loss, watched))
      out.push_back(x);
  return out;
}

class DeviceOps : public ::testing::TestWithParam<const op*> {};

/// Each op gives the same results and gradients on a device as on the CPU, from
/// kernels that the device runs.
TEST_P(DeviceOps, GiveTheResultsOfTheCpu) {
  const auto& definition = *GetParam();
  simulated_devices devices;
  for (std::size_t i = 0; i < definition.cases.size(); ++i) {
    const detail::tried_op tried{&definition, i};
    for (auto type : {dtype::float32, dtype::float64, dtype::bfloat16}) {
      if (!definition.is_reshape && !definition.view
          && !definition.select_kernels(type))
        continue;
      tensors here, there;
      for (const auto& x : detail::draw(tried, type)) {
        here.push_back(x);
        there.push_back(x.to(gpu));
      }
      if (&definition == &ops::to_device) // its target is the CPU
        continue;
      const auto& tested = definition.cases[i];
      const auto want = results_of(definition, tested, here);
      const auto got = results_of(definition, tested, there);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t k = 0; k < got.size(); ++k) {
        EXPECT_EQ(got[k].device(), gpu);
        EXPECT_TRUE(same_bits(got[k], want[k]))
          << tried.description() << ", result " << k;
      }
    }
  }
}

/// The checks of an op can be run for the kernels of a device.
TEST_P(DeviceOps, PassTheChecks) {
  const auto& definition = *GetParam();
  if (&definition == &ops::to_device) // its target is the CPU
    GTEST_SKIP();
  simulated_devices devices;
  for (const auto& failure : check_op(definition, gpu))
    ADD_FAILURE() << failure;
}

INSTANTIATE_TEST_SUITE_P(All, DeviceOps, ::testing::ValuesIn(all_ops()),
                         [](const auto& info) {
                           return std::string{info.param->name};
                         });

// -- gradients ----------------------------------------------------------------

TEST(DeviceTape, TheGradientOfACopyIsCopiedBack) {
  simulated_devices devices;
  tape recording;
  const auto x = recording.watch(one_to_six());
  const auto y = x.to(gpu);
  const auto loss = reduce_sum(y * y + x.to(other_gpu).to(gpu));
  EXPECT_EQ(loss.device(), gpu);
  const auto found = recording.gradient(loss, tensors{x});
  EXPECT_EQ(found[0].device(), device{});
  EXPECT_TRUE(
    same_bits(found[0], tensor::of<float>({3, 2}, {3, 5, 7, 9, 11, 13})));
}

/// A loss is read without a trace on the tape, also inside of a newer one.
TEST(DeviceTape, ItemOfALossIsNotRecorded) {
  simulated_devices devices;
  tape recording;
  const auto x = recording.watch(one_to_six().to(gpu));
  const auto loss = reduce_sum(x * x);
  {
    tape newer;
    EXPECT_EQ(loss.item<float>(), 91);
  }
  EXPECT_TRUE(
    same_bits(recording.gradient(loss, tensors{x})[0], one_to_six() * 2));
}

/// The elements of a sparse gradient are on the device of the table. So is a
/// gradient to which a dense op adds, or that no op has read.
TEST(DeviceTape, SparseGradientsAreOnTheDevice) {
  simulated_devices devices;
  const auto ids = tensor::of<std::int32_t>({2}, {2, 0}).to(gpu);
  tape recording;
  const auto table = recording.watch(one_to_six().to(gpu));
  const auto both = recording.watch(one_to_six().to(gpu));
  const auto unread = recording.watch(one_to_six().to(gpu));
  // The backward pass begins with the rows of `both`, to which the square adds.
  const auto squares = reduce_sum(both * both);
  const auto loss = squares + reduce_sum(embedding_lookup(both, ids))
                    + reduce_sum(embedding_lookup(table, ids));
  const auto found =
    recording.sparse_gradients(loss, tensors{table, both, unread});
  ASSERT_TRUE(found[0].is_sparse());
  EXPECT_EQ(found[0].elements().device(), gpu);
  EXPECT_EQ(found[0].rows().indices().device(), device{});
  EXPECT_TRUE(same_bits(found[0].rows().dense(),
                        tensor::of<float>({3, 2}, {1, 1, 0, 0, 1, 1})));
  ASSERT_FALSE(found[1].is_sparse());
  EXPECT_EQ(found[1].elements().device(), gpu);
  EXPECT_TRUE(same_bits(found[1].elements(),
                        tensor::of<float>({3, 2}, {3, 5, 6, 8, 11, 13})));
  EXPECT_EQ(found[2].elements().device(), gpu);
}

/// Parts of several lookups are joined before they are added, as on the CPU.
TEST(DeviceTape, SparseGradientsHaveTheOrderOfTheCpu) {
  simulated_devices devices;
  for (const auto type : {dtype::float32, dtype::bfloat16}) {
    const auto gradient_on = [&](const device& on) {
      tape recording;
      const auto table =
        recording.watch(tensor::zeros({9, 1}, dtype::float32, on).as(type));
      tensor loss;
      // In float32, the sum of the sums of both lookups is 1, not 2.
      for (const auto& factors :
           {std::array{1.0f, 0x1p24f}, std::array{-0x1p24f, 1.0f}}) {
        const auto ids = tensor::of<std::int64_t>({2}, {7, 7}).to(on);
        const auto part =
          reduce_sum(embedding_lookup(table, ids)
                     * tensor::of<float>({2, 1}, factors).as(type).to(on));
        loss = loss ? loss + part : part;
      }
      return recording.sparse_gradients(loss, tensors{table})[0];
    };
    const auto got = gradient_on(gpu), want = gradient_on({});
    ASSERT_TRUE(got.is_sparse());
    EXPECT_TRUE(same_bits(got.rows().indices(), want.rows().indices()));
    EXPECT_TRUE(same_bits(got.elements(), want.elements()));
  }
}

TEST(DeviceRows, AreNotAddedToATensorElsewhere) {
  simulated_devices devices;
  const sparse_rows rows{{3, 2},
                         tensor::of<std::int64_t>({1}, {2}).to(gpu),
                         tensor::full({1, 2}, 1).to(gpu)};
  EXPECT_FALSE(rows.is_sorted());
  auto here = one_to_six();
  EXPECT_EQ(error_of([&] { rows.add_to(here); }),
            "rows on cuda:0 cannot be added to a tensor on cpu:0");
  EXPECT_EQ(error_of([&] {
              sparse_rows{{3, 2}, rows.indices(), tensor::zeros({1, 2})};
            }),
            "rows on cpu:0 with indices on cuda:0");
  auto there = one_to_six().to(gpu);
  rows.add_to(there);
  EXPECT_TRUE(same_bits(there, tensor::of<float>({3, 2}, {1, 2, 3, 4, 6, 7})));
}

TEST(DeviceRows, MayBeNone) {
  simulated_devices devices;
  const sparse_rows rows{{3, 2},
                         tensor::zeros({0}, dtype::int64, gpu),
                         tensor::zeros({0, 2}, dtype::float32, gpu)};
  EXPECT_TRUE(rows.is_sorted());
  EXPECT_EQ(rows.indices().data<std::int64_t>().size(), 0u);
  EXPECT_TRUE(same_bits(rows.dense(), tensor::zeros({3, 2})));
}

TEST(DeviceTape, ReplicasOnTwoDevicesDoNotShareOneCopy) {
  simulated_devices devices;
  EXPECT_EQ(error_of([] {
              parameters{{{"w", {2}}}, 1, 2, {gpu, other_gpu}};
            }),
            "replicas on cuda:0 and cuda:1 cannot share one copy of the "
            "parameters");
  EXPECT_EQ(error_of([] {
              parameters{{{"w", {2}}}, 1, 2, {gpu}};
            }),
            "no error");
}

/// Each replica has a copy of the parameters on its own device.
TEST(DeviceTape, VariablesAndTheirGradientsAreOnTheDeviceOfTheReplica) {
  simulated_devices devices;
  parameters all{{{"w", {2, 3}}, {"unused", {5}}}, 2, 2, {gpu, other_gpu}};
  for (const std::uint32_t replica : {0u, 1u}) {
    context one;
    one.copy_index = replica;
    const context_scope scope{one};
    const auto on = replica == 0 ? gpu : other_gpu;
    const auto& w = all.variables()[0];
    EXPECT_EQ(w.device(), on);
    all.values(replica).copy_from(
      tensor::full({std::int64_t(all.size())}, 2, dtype::float32, on));
    const auto x = one_to_six().to(on);
    {
      tape recording;
      const auto loss = reduce_sum(matmul(x, w.value()));
      recording.gradient_into_variables(loss, all.variables(), {});
    }
    const auto want = tensor::of<float>({2, 3}, {9, 9, 9, 12, 12, 12});
    EXPECT_EQ(w.gradient().device(), on);
    EXPECT_TRUE(same_bits(w.gradient(), want));
    EXPECT_TRUE(same_bits(all.variables()[1].gradient(), tensor::zeros({5})));
    tape recording;
    const auto loss = reduce_sum(matmul(x, w.value()));
    const auto found = recording.gradient(loss, all.variables());
    EXPECT_EQ(found[0].device(), on);
    EXPECT_TRUE(same_bits(found[0], want));
  }
  all.grow(3, 3);
  EXPECT_EQ(all.values(2).device(), all.values(0).device()) << "in turn";
  EXPECT_TRUE(same_bits(all.values(2), all.values(0)));
}

} // namespace
