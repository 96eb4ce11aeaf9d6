#include "troupe/actors/core/job_error.hpp"
#include "troupe/tests/training/strategies/workers.hpp"
#include "troupe/training/loop/audit/snapshot_restore.hpp"
#include "troupe/training/loop/model/optimizer.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;
using namespace troupe::test;

std::shared_ptr<model_state> model_on(const strategy& on) {
  auto out = std::make_shared<model_state>(
    small_net(true), adam{}, models::find_loss("softmax_cross_entropy"), 5,
    on.state());
  out->net.initialize(out->model_parameters, out->seed);
  return out;
}

void fill(model_state& model, float value) {
  for (auto& x : model.model_parameters.values(0).mutable_data<float>())
    x = value;
}
float first_value(const model_state& model) {
  return model.model_parameters.values(0).data<float>()[0];
}

/// The snapshot of a process and its marks.
struct kept_snapshot {
  void take(const model_state& model, std::uint64_t step) {
    snapshot.take(model, 0, step, hash_of_copy(model, 0));
    marks.push_back({step, {10 * step, {1, 2}, 3}});
  }
  std::optional<snapshot_mark> restore(model_state& model) {
    return restore_newest_snapshot(model, snapshot, marks);
  }

  state_snapshot snapshot;
  std::vector<snapshot_mark> marks;
};

TEST(SnapshotRestore, TakesTheNewestSnapshotOfAnyProcess) {
  expect_success_on_workers(3, 1, [](const strategy& on, std::uint32_t w) {
    const auto scope = on.scope();
    const auto model = model_on(on);
    kept_snapshot own;
    if (w < 2) { // worker 2 has none
      fill(*model, float(w + 1));
      own.take(*model, 4 * (w + 1));
    }
    fill(*model, 9);
    const auto mark = own.restore(*model);
    ASSERT_TRUE(mark);
    EXPECT_EQ(mark->steps, 8u);
    EXPECT_EQ(mark->totals.examples, 80u);
    EXPECT_EQ(first_value(*model), 2);
  });
}

/// The process that has sent it can be lost before the others know that all
/// have restored it. Here its snapshot is gone.
TEST(SnapshotRestore, AReceivedSnapshotCanBeRestoredAgain) {
  expect_success_on_workers(2, 1, [](const strategy& on, std::uint32_t w) {
    const auto scope = on.scope();
    const auto model = model_on(on);
    kept_snapshot own;
    if (w == 0) {
      fill(*model, 1);
      own.take(*model, 4);
    }
    ASSERT_TRUE(own.restore(*model));
    if (w == 0)
      own.snapshot.discard();
    fill(*model, 9);
    const auto mark = own.restore(*model);
    ASSERT_TRUE(mark);
    EXPECT_EQ(mark->steps, 4u);
    EXPECT_EQ(mark->totals.examples, 40u);
    EXPECT_EQ(mark->totals.sums, (std::vector<double>{1, 2}));
    EXPECT_EQ(first_value(*model), 1);
  });
}

TEST(SnapshotRestore, OfNoProcessIsNone) {
  expect_success_on_workers(2, 1, [](const strategy& on, std::uint32_t) {
    const auto scope = on.scope();
    const auto model = model_on(on);
    fill(*model, 9);
    EXPECT_FALSE(kept_snapshot{}.restore(*model));
    EXPECT_EQ(first_value(*model), 9);
  });
}

/// Worker 1 says that its snapshot is of step 4, but sends the mark of step 5.
TEST(SnapshotRestore, RejectsASnapshotWithTheMarkOfAnotherStep) {
  expect_success_on_workers(2, 1, [](const strategy& on, std::uint32_t w) {
    const auto scope = on.scope();
    const auto model = model_on(on);
    if (w == 1) {
      gather_text_once(on.state(),
                       encode_text(true, std::uint64_t{4}, std::uint64_t{1},
                                   encode_mark({5, {}})));
      return;
    }
    std::string text;
    try {
      kept_snapshot{}.restore(*model);
    } catch (const job_error& e) {
      text = e.what();
      EXPECT_EQ(e.code, ec::protocol);
    }
    EXPECT_NE(text.find("a snapshot of step 4"), text.npos) << text;
  });
}

} // namespace
