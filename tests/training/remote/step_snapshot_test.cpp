#include "troupe/actors/core/job_error.hpp"
#include "troupe/training/remote/step_snapshot.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

namespace {

using namespace troupe;

/// Step functions whose state is some tensors.
struct stateful {
  tensors state;
  step_functions functions = [this] {
    step_functions out;
    out.snapshot = [this] { return state; };
    out.restore = [this](const tensors& x) { state = x; };
    return out;
  }();
};

/// Copies the state as the processes of a job do.
void copy(step_snapshot& from, step_snapshot& target) {
  const auto text = from.state_text();
  target.state_text();
  const auto sent = from.state_tensors(text);
  auto received = target.state_tensors(text);
  ASSERT_EQ(sent.size(), received.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    ASSERT_EQ(sent[i].spec(), received[i].spec());
    received[i].copy_from(sent[i]);
  }
  target.on_copied(text);
}

TEST(StepSnapshot, OfAnyTensorsIsCopiedToAnotherProcess) {
  stateful source, receiver;
  source.state = {tensor::full({2, 3}, 4, dtype::float64), tensor{},
                  tensor::full({}, 5, dtype::int64), tensor::zeros({0, 2})};
  step_snapshot from{source.functions}, target{receiver.functions};
  copy(from, target);
  ASSERT_EQ(receiver.state.size(), 4u);
  EXPECT_FALSE(receiver.state[1]);
  for (const std::size_t i : {0, 2, 3}) {
    EXPECT_EQ(receiver.state[i].spec(), source.state[i].spec());
    EXPECT_TRUE(same_bits(receiver.state[i], source.state[i]));
  }
  source.state = {};
  copy(from, target);
  EXPECT_TRUE(receiver.state.empty());
}

TEST(StepSnapshot, RestoresWhatWasKeptAlthoughTheTensorsHaveChanged) {
  stateful of;
  of.state = {tensor::full({}, 1)};
  step_snapshot kept{of.functions};
  kept.restore_state(); // there is nothing to restore
  kept.keep_state();
  of.state[0].copy_from(tensor::full({}, 2));
  kept.restore_state();
  EXPECT_EQ(of.state.at(0).item<float>(), 1);
}

TEST(StepSnapshot, NeedsBothFunctions) {
  stateful of;
  of.functions.restore = {};
  EXPECT_THROW(step_snapshot{of.functions}, std::invalid_argument);
}

TEST(StepSnapshot, RejectsMalformedTextsAndTensors) {
  stateful of;
  of.state = {tensor::full({}, 1)};
  step_snapshot target{of.functions};
  for (const auto& text :
       {std::string{}, encode_text(std::uint64_t{0}),
        encode_text(std::uint64_t{step_snapshot::max_bytes + 1})})
    EXPECT_THROW(target.state_tensors(text), job_error);
  const auto text = target.state_text();
  auto received = target.state_tensors(text);
  std::memset(received[0].raw(), 0xff, received[0].bytes());
  EXPECT_THROW(target.on_copied(text), job_error);
  EXPECT_EQ(of.state.at(0).item<float>(), 1) << "nothing was restored";
}

} // namespace
