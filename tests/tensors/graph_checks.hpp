#pragma once

#include "troupe/tensors/base/device_error.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/device_backend.hpp"
#include "troupe/tensors/ops/add_in_place.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/dropout.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tensors/tensor.hpp"
#include "troupe/tensors/variable.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

// What captures and graphs of a device guarantee (`device_backend`). The tests
// check it on simulated devices and on a card.

namespace troupe::test {

using graph_check = void (*)(const device& on);

inline std::unique_ptr<device_backend::graph>
captured(const device& on, const std::function<void()>& work) {
  const auto capture = backend_of(on).begin_capture(on);
  work();
  return capture->end();
}

/// Returns [1000] float32 on a device.
inline tensor filled(double value, const device& on) {
  return tensor::full({1000}, value, dtype::float32, on);
}

inline void expect_values(const tensor& x, double value) {
  EXPECT_TRUE(same_bits(x.to({}), filled(value, {}))) << value;
}

/// The work is done by launches only, with the values of that time.
inline void expect_launches_repeat_the_work(const device& on) {
  auto x = filled(3, on), y = filled(-1, on);
  const auto graph = captured(on, [&] { y.copy_from(x * x + x); });
  expect_values(y, -1);
  graph->launch(0);
  expect_values(y, 12);
  x.copy_from(filled(5, {}));
  expect_values(y, 12);
  graph->launch(1);
  expect_values(y, 30);
}

/// Other tensors do not get the memory of a graph, also not that of tensors
/// which were released in the capture.
inline void expect_memory_of_its_own(const device& on) {
  auto x = filled(3, on), y = filled(-1, on);
  tensor kept;
  const auto graph = captured(on, [&] {
    for (int i = 0; i < 3; ++i)
      y.copy_from(x * x + x);
    kept = y * 2.0;
  });
  std::vector<tensor> others;
  for (int i = 0; i < 20; ++i)
    others.push_back(filled(100 + i, on));
  graph->launch(0);
  kept = {};
  others.push_back(filled(120, on));
  graph->launch(1);
  expect_values(y, 12);
  for (int i = 0; i <= 20; ++i)
    expect_values(others[std::size_t(i)], 100 + i);
}

/// A block that is released in the capture is used again there.
inline void expect_memory_is_used_again(const device& on) {
  auto x = filled(3, on), y = filled(-1, on);
  const auto bytes_of = [&](int repeats) {
    const auto before = backend_of(on).used(on).live;
    const auto graph = captured(on, [&] {
      for (int i = 0; i < repeats; ++i)
        y.copy_from(x * x);
    });
    return backend_of(on).used(on).live - before;
  };
  EXPECT_EQ(bytes_of(10), bytes_of(1));
}

inline void expect_memory_is_returned(const device& on) {
  auto x = filled(3, on), y = filled(-1, on);
  tensor kept;
  const auto before = backend_of(on).used(on).live;
  {
    const auto graph = captured(on, [&] { kept = x * x; });
    graph->launch(0);
    EXPECT_GT(backend_of(on).used(on).live, before);
  }
  expect_values(kept, 9); // it has outlived the graph
  kept = {};
  EXPECT_EQ(backend_of(on).used(on).live, before);
  {
    const auto given_up = backend_of(on).begin_capture(on);
    y.copy_from(x * x);
  }
  EXPECT_EQ(backend_of(on).used(on).live, before);
  expect_values(y, -1);
}

/// Expects that a launch changes no tensor but those of its work. These were
/// made after the capture.
inline void expect_others_unchanged(device_backend::graph& graph,
                                    const device& on) {
  std::vector<tensor> others;
  for (int i = 0; i < 20; ++i)
    others.push_back(filled(100 + i, on));
  graph.launch(0);
  for (int i = 0; i < 20; ++i)
    expect_values(others[std::size_t(i)], 100 + i);
}

/// Memory that the work reads or writes, and that all tensors have released, is
/// given to no other tensor while the graph exists. Each tensor has one use.
inline void expect_operands_are_kept(const device& on) {
  const auto before = backend_of(on).used(on).live;
  {
    auto y = filled(-1, on), z = filled(-1, on);
    std::unique_ptr<device_backend::graph> graph;
    {
      const auto a = filled(3, on), b = filled(2, on), c = filled(7, on),
                 narrow = filled(4, on).as(dtype::bfloat16);
      auto target = filled(0, on), sum = filled(1, on), zero = filled(5, on);
      graph = captured(on, [&] {
        zero.set_zero();
        add_in_place(sum, c);
        target.copy_from(y);
        y.copy_from(a * b);
        z.copy_from(narrow.as(dtype::float32));
      });
    }
    expect_others_unchanged(*graph, on);
    expect_values(y, 6);
    expect_values(z, 4);
  }
  EXPECT_EQ(backend_of(on).used(on).live, before);
}

/// Gradients of parameters are such memory too.
inline void expect_gradients_are_kept(const device& on) {
  std::unique_ptr<device_backend::graph> graph;
  {
    const parameters weights{{{"w", {1000}}}, 1, 1, {on}};
    graph = captured(on, [&] {
      tape recording;
      const auto w = weights.variables()[0].value();
      recording.gradient_into_variables(reduce_sum(w * 3.0),
                                        weights.variables());
    });
  }
  expect_others_unchanged(*graph, on);
}

inline void expect_refusals(const device& on) {
  auto x = filled(3, on);
  const auto host = filled(4, {});
  const auto event = backend_of(on).make_event(on);
  const std::vector<std::function<void()>> calls{
    [&] { x.to({}); },
    [&] { host.to(on); },
    [&] { x.copy_from(host); },
    [&] { event->record(device_backend::stream::compute); },
    [&] { event->block(device_backend::stream::compute); },
    [&] { event->synchronize(); },
  };
  for (const auto& call : calls) {
    EXPECT_THROW(captured(on, call), device_error);
    expect_values(x * 2.0, 6); // the device can be used
  }
  const auto first = backend_of(on).begin_capture(on);
  EXPECT_THROW(backend_of(on).begin_capture(on), std::logic_error);
}

/// Another thread computes, and its memory and work belong to no graph.
inline void expect_other_threads_go_on(const device& on) {
  auto x = filled(3, on), y = filled(-1, on);
  tensor other;
  const auto graph = captured(on, [&] {
    y.copy_from(x * x);
    std::thread{[&] {
      other = x + x;
      expect_values(other, 6);
    }}.join();
    y.copy_from(y + x);
  });
  other.copy_from(filled(8, on));
  graph->launch(0);
  expect_values(y, 12);
  expect_values(other, 8);
}

inline void expect_random_ops_follow_the_step(const device& on) {
  context own;
  const context_scope scope{own};
  const auto x = filled(1, on);
  const auto dropped_at = [&](std::uint64_t step) {
    own.random = {.seed = 7, .replica = 2, .step = step};
    auto first = dropout(x, 0.5f, true);
    return std::pair{first, dropout(first, 0.25f, true)};
  };
  auto y = filled(-1, on), z = filled(-1, on);
  own.random = {.seed = 7, .replica = 2, .step = 99};
  const auto capture = backend_of(on).begin_capture(on);
  const auto first = dropout(x, 0.5f, true);
  y.copy_from(first);
  z.copy_from(dropout(first, 0.25f, true));
  EXPECT_EQ(capture->random_ops(), 2u);
  const auto graph = capture->end();
  for (const std::uint64_t step : {0ull, 1ull, 0x1'2345'6789ull, 99ull}) {
    graph->launch(step);
    const auto want = dropped_at(step);
    EXPECT_TRUE(same_bits(y, want.first)) << step;
    EXPECT_TRUE(same_bits(z, want.second)) << step;
  }
}

struct named_graph_check {
  const char* name;
  graph_check check;
};

inline constexpr named_graph_check graph_checks[] = {
  {"LaunchesRepeatTheWork", expect_launches_repeat_the_work},
  {"MemoryOfItsOwn", expect_memory_of_its_own},
  {"MemoryIsUsedAgain", expect_memory_is_used_again},
  {"MemoryIsReturned", expect_memory_is_returned},
  {"OperandsAreKept", expect_operands_are_kept},
  {"GradientsAreKept", expect_gradients_are_kept},
  {"Refusals", expect_refusals},
  {"OtherThreadsGoOn", expect_other_threads_go_on},
  {"RandomOpsFollowTheStep", expect_random_ops_follow_the_step},
};

} // namespace troupe::test
