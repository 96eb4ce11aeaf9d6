#include "card.hpp"
#include "troupe/actors/collectives/nccl/nccl_backend.hpp"
#include "troupe/actors/collectives/nccl/nccl_device.hpp"
#include "troupe/actors/collectives/nccl/nccl_watchdog.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tests/support/placements.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <mutex>

// NCCL with one rank: a card has one rank, and these tests never ran on several
// cards.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

using kind = collective_backend::wait_condition::kind;
using wait_status = collective_backend::wait_status;

class ids_in_memory final : public communicator_id_exchange {
public:
  void publish(std::uint64_t generation, const communicator_id& id) override {
    const std::lock_guard locked{lock_};
    ids_[generation] = id;
  }
  std::optional<communicator_id> find(std::uint64_t generation) override {
    const std::lock_guard locked{lock_};
    const auto at = ids_.find(generation);
    return at == ids_.end() ? std::nullopt : std::optional{at->second};
  }

private:
  std::mutex lock_;
  std::map<std::uint64_t, communicator_id> ids_;
};

/// Two replicas on one card.
class NcclOnACard : public OnACard {
protected:
  void SetUp() override {
    OnACard::SetUp();
    if (IsSkipped())
      return;
    const auto device = make_nccl_device(0);
    rank = std::make_shared<nccl_collectives>(
      local_placement{placement::contiguous({2}), 0}, device,
      std::make_shared<ids_in_memory>(),
      std::make_shared<threaded_blocking_calls>());
    watchdog.emplace(rank, 1ms);
    for (std::uint32_t r = 0; r < 2; ++r)
      backends.push_back(
        std::make_unique<nccl_backend>(rank, r, device->make_stream()));
  }

  void begin(std::uint64_t generation, std::uint64_t step) {
    for (auto& one : backends) {
      one->begin_generation(generation);
      one->begin_step(step);
    }
  }
  void contribute(std::uint32_t bucket, const tensor& a, const tensor& b,
                  const collective_options& options) {
    using collective::output_placement;
    backends[0]->contribute(bucket, a, options, output_placement::separate);
    backends[1]->contribute(bucket, b, options, output_placement::separate);
  }
  /// Waits at most 60 seconds.
  bool is_ready(std::uint32_t replica, kind what, std::uint32_t bucket = 0) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (std::chrono::steady_clock::now() < end) {
      const auto status = backends[replica]->wait({what, bucket}, true);
      if (status == wait_status::ready)
        return true;
      if (status == wait_status::failed)
        return false;
    }
    return false;
  }

  std::shared_ptr<nccl_collectives> rank;
  std::optional<nccl_watchdog> watchdog;
  std::vector<std::unique_ptr<nccl_backend>> backends;
};

tensor filled(std::int64_t n, float first) {
  tensor out{shape{n}};
  for (auto& x : out.mutable_data<float>())
    x = first, first += 0.3f;
  return out;
}

TEST_F(NcclOnACard, SumsAndGathersOfTwoReplicasAreCorrect) {
  constexpr collective_options by_tree{};
  constexpr collective_options by_nccl{
    collective_options::algorithm_kind::nccl};
  const auto a = filled(100'003, 1), b = filled(100'003, -7);
  for (std::uint64_t step = 0; step < 3; ++step) {
    begin(1, step);
    contribute(0, a, b, by_tree);
    contribute(1, b, a, by_nccl);
    for (std::uint32_t r = 0; r < 2; ++r)
      backends[r]->gather(2, r == 0 ? a : b, by_tree);
    for (std::uint32_t r = 0; r < 2; ++r) {
      ASSERT_TRUE(is_ready(r, kind::sum, 0))
        << (rank->last_failure() ? rank->last_failure()->cause : "");
      ASSERT_TRUE(is_ready(r, kind::sum, 1));
      EXPECT_TRUE(same_bits(backends[r]->sum_of(0), add(a, b)));
      EXPECT_TRUE(same_bits(backends[r]->sum_of(1), add(b, a)));
      ASSERT_TRUE(is_ready(r, kind::gather, 2));
      EXPECT_TRUE(same_bits(backends[r]->gathered(2)[0], a));
      EXPECT_TRUE(same_bits(backends[r]->gathered(2)[1], b));
    }
    for (std::uint32_t r = 0; r < 2; ++r)
      ASSERT_TRUE(is_ready(r, kind::drained));
    for (auto& one : backends)
      one->end_step();
  }
}

TEST_F(NcclOnACard, ASumByTreeFlushesDenormalsAsOnTheCpu) {
  constexpr double least = 0x1p-1022; // least normal number
  const auto of = [](std::initializer_list<double> values) {
    tensor out{shape{std::int64_t(values.size())}, dtype::float64};
    std::ranges::copy(values, out.mutable_data<double>().begin());
    return out;
  };
  const auto a = of({least / 2, -least / 4, 1.5 * least, least / 2, 1});
  const auto b = of({least / 2, -least / 4, -least, least, 2});
  begin(1, 0);
  contribute(0, a, b, {});
  for (std::uint32_t r = 0; r < 2; ++r) {
    ASSERT_TRUE(is_ready(r, kind::drained));
    EXPECT_TRUE(same_bits(backends[r]->sum_of(0), add(a, b)));
  }
  for (auto& one : backends)
    one->end_step();
}

TEST_F(NcclOnACard, AGenerationAfterAnAbortedOneWorks) {
  const auto a = filled(1000, 1), b = filled(1000, 2);
  begin(1, 0);
  contribute(0, a, b, {});
  rank->abort(1, {ec::cancelled, "the test aborts it"});
  begin(2, 0);
  contribute(0, a, b, {});
  ASSERT_TRUE(is_ready(0, kind::sum, 0));
  EXPECT_TRUE(same_bits(backends[0]->sum_of(0), add(a, b)));
  ASSERT_TRUE(is_ready(1, kind::drained));
  for (auto& one : backends)
    one->end_step();
}

TEST_F(OnACard, NcclOnADeviceThatIsNotThereIsASentence) {
  EXPECT_NE(error_of([] {
              make_nccl_device(63);
            }).find("cuda:63 does not exist; this machine has "),
            std::string::npos);
}

} // namespace
