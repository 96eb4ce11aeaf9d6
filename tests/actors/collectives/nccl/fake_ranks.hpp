#pragma once

#include "troupe/actors/collectives/nccl/nccl_backend.hpp"
#include "troupe/tests/actors/collectives/nccl/fake_nccl.hpp"

#include <gtest/gtest.h>

#include <deque>

// The ranks of a job with fake devices, on one thread. A seed chooses what
// happens next.

namespace troupe::testing {

/// Calls that may block, which the test runs.
class queued_calls final : public blocking_calls {
public:
  void post(std::function<void()> call) override {
    queue.push_back(std::move(call));
  }
  bool run_one() {
    if (queue.empty())
      return false;
    const auto call = std::move(queue.front());
    queue.pop_front();
    call();
    return true;
  }
  std::deque<std::function<void()>> queue;
};

/// Ids in the memory that all ranks share.
class shared_ids final : public communicator_id_exchange {
public:
  void publish(std::uint64_t generation, const communicator_id& id) override {
    const std::lock_guard locked{lock_};
    ids_[generation] = id;
  }
  std::optional<communicator_id> find(std::uint64_t generation) override {
    const std::lock_guard locked{lock_};
    const auto it = ids_.find(generation);
    return it == ids_.end() || !delivers ? std::nullopt
                                         : std::optional{it->second};
  }
  std::atomic<bool> delivers = true; ///< False: no id arrives.

private:
  std::mutex lock_;
  std::map<std::uint64_t, communicator_id> ids_;
};

struct fake_ranks {
  using kind = collective_backend::wait_condition::kind;
  using wait_status = collective_backend::wait_status;

  fake_ranks(const placement& job, unsigned seed, nccl_options options = {})
    : random{seed},
      nccl{std::make_shared<fake_nccl>(fake_nccl::options{.seed = seed})} {
    options.poll_interval = {};
    options.now = [this] { return now; };
    options.close_timeout = {};
    for (std::uint32_t p = 0; p < job.processes(); ++p)
      ranks.push_back(std::make_shared<nccl_collectives>(
        local_placement{job, p}, nccl->make_device(), ids, calls, options));
    for (std::uint32_t r = 0; r < job.replicas(); ++r) {
      compute.push_back(std::make_shared<fake_stream>(nccl, job.process_of(r)));
      backends.push_back(std::make_unique<nccl_backend>(
        ranks[job.process_of(r)], r, compute.back()));
    }
  }

  /// Ends all communicators and checks that memory was used rightly.
  ~fake_ranks() {
    now += std::chrono::hours{1}; // after all deadlines
    for (const auto& rank : ranks)
      for (std::uint64_t number = 1; number <= generation; ++number)
        rank->abort(number, {ec::cancelled, "the test ends"});
    EXPECT_TRUE(run_until([&] {
      return std::ranges::all_of(ranks,
                                 [](const auto& x) { return x->is_drained(); });
    }));
    EXPECT_EQ(nccl->violations(), std::set<std::string>{});
  }

  void begin_generation(std::uint32_t replica, std::uint64_t number) {
    generation = std::max(generation, number);
    backends[replica]->begin_generation(number);
  }
  void begin(std::uint64_t number, std::uint64_t step) {
    for (std::uint32_t r = 0; r < backends.size(); ++r) {
      begin_generation(r, number);
      backends[r]->begin_step(step);
    }
  }

  /// Lets one thing happen. @returns false if nothing can.
  bool turn() {
    const auto choice = random() % 8;
    if (choice == 0)
      ranks[random() % ranks.size()]->check();
    if (choice == 1 && calls->run_one())
      return true;
    return nccl->step() || calls->run_one();
  }

  /// Lets things happen until the condition holds. @returns false if it does
  /// not hold after many of them.
  template <class Condition>
  bool run_until(Condition condition) {
    for (int i = 0; i < 20'000; ++i) {
      if (condition())
        return true;
      if (!turn())
        for (const auto& rank : ranks)
          rank->check();
    }
    return condition();
  }
  void run_some(unsigned turns) {
    run_until([&] { return turns-- == 0; });
  }

  wait_status status(std::uint32_t replica,
                     const collective_backend::wait_condition& condition) {
    return backends[replica]->wait(condition, false);
  }
  bool all(const collective_backend::wait_condition& condition,
           wait_status wanted) {
    for (std::uint32_t r = 0; r < backends.size(); ++r)
      if (status(r, condition) != wanted)
        return false;
    return true;
  }

  std::chrono::steady_clock::time_point now{};
  std::mt19937 random;
  std::shared_ptr<fake_nccl> nccl;
  std::shared_ptr<shared_ids> ids = std::make_shared<shared_ids>();
  std::shared_ptr<queued_calls> calls = std::make_shared<queued_calls>();
  std::vector<std::shared_ptr<nccl_collectives>> ranks;
  std::vector<std::shared_ptr<fake_stream>> compute;   ///< By replica.
  std::vector<std::unique_ptr<nccl_backend>> backends; ///< By replica.
  std::uint64_t generation = 0;
};

} // namespace troupe::testing
