#include "losses.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <random>
#include <sstream>
#include <thread>

// Hangs and losses that are drawn from a seed. `explain` must name the replica
// or process, what waits for it, and the step.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

constexpr auto step_timeout = 2s;
constexpr std::uint64_t cases = 50;

enum class hang_kind { before_sum, before_gather, lost_packets, no_run, loss };

/// One hang, or one loss.
struct hang {
  hang_kind kind;
  std::uint32_t workers, devices; ///< Devices of each worker.
  std::uint32_t replica;          ///< Hangs, or its packets are lost.
  std::uint64_t step;
  std::uint32_t bucket; ///< Number of the collective in the step.
  std::uint32_t asker;  ///< Worker that calls `explain`.

  std::uint32_t worker() const { return replica / devices; }
};

std::ostream& operator<<(std::ostream& out, const hang& x) {
  return out << "kind " << int(x.kind) << ", " << x.workers << " workers with "
             << x.devices << " devices, replica " << x.replica << ", step "
             << x.step << ", collective " << x.bucket << ", asked at worker "
             << x.asker;
}

/// @param seed its last digits choose the kind, so that all occur equally
///        often.
hang draw(std::uint64_t seed) {
  std::mt19937_64 random{seed};
  const auto below = [&](std::uint64_t n) {
    return std::uint32_t(random() % n);
  };
  hang out{};
  out.kind = static_cast<hang_kind>(seed % 5);
  out.workers = out.kind == hang_kind::loss ? 3 : 2 + below(2);
  out.devices = 1 + below(2);
  // Only the first replica of a process sends its contributions to another one.
  out.replica = out.kind == hang_kind::lost_packets
                  ? (1 + below(out.workers - 1)) * out.devices
                  : below(out.workers * out.devices);
  out.step = below(8);
  out.bucket = out.kind == hang_kind::lost_packets ? 0 : below(3);
  do
    out.asker = below(out.workers);
  while (out.asker == out.worker());
  return out;
}

/// Drops the contributions of a replica from a step on, until `is_over`.
class packet_loss final : public fault_injector {
public:
  explicit packet_loss(const hang& what) : what_{what} {}

  injected_fault on_send(const role_id& sender, const role_id&,
                         message_kind kind, std::uint64_t,
                         std::uint64_t step) override {
    const bool is_contribution = kind == message_kind::contribution
                                 || kind == message_kind::gather_contribution;
    if (is_over || !is_contribution || sender != replica_id(what_.replica)
        || step < what_.step)
      return {};
    dropped = true;
    return {.dropped = true};
  }

  std::atomic<bool> dropped = false, is_over = false;

private:
  const hang what_;
};

/// Holds the one that hangs until `explain` has answered, and says since when.
class gate {
public:
  void wait() {
    std::unique_lock hold{lock_};
    begin_ = clock_type::now();
    changed_.notify_all();
    changed_.wait_for(hold, 60s, [&] { return open_; });
  }
  void mark() {
    const std::lock_guard hold{lock_};
    begin_ = clock_type::now();
    changed_.notify_all();
  }
  void open() {
    const std::lock_guard hold{lock_};
    open_ = true;
    changed_.notify_all();
  }
  /// @returns when the hang began.
  clock_type::time_point begin() {
    std::unique_lock hold{lock_};
    EXPECT_TRUE(
      changed_.wait_for(hold, 60s, [&] { return begin_.has_value(); }));
    return begin_.value_or(clock_type::now());
  }

private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::optional<clock_type::time_point> begin_;
  bool open_ = false;
};

class InjectedHang : public ::testing::TestWithParam<std::uint64_t> {
protected:
  InjectedHang() : what{draw(GetParam())} {
    std::ostringstream text;
    text << "seed " << GetParam() << ": " << what;
    RecordProperty("case", text.str());
    description = text.str();
  }

  void step(const strategy& on, replica_context& self, std::uint64_t number) {
    for (std::uint32_t bucket = 0; bucket < 3; ++bucket) {
      if (number == what.step && self.replica_id() == what.replica
          && bucket == what.bucket) {
        if (what.kind == hang_kind::loss) {
          cut_off(on);
          where.wait(); // so that the step cannot be completed
        } else if (what.kind == hang_kind::lost_packets) {
          where.mark();
        } else if (what.kind != hang_kind::no_run) {
          where.wait();
        }
      }
      if (what.kind == hang_kind::before_gather)
        self.all_gather(tensor::full({2}, 1));
      else
        self.all_reduce(sum, tensor::full({4}, 1));
    }
  }

  bool is_named(const job_status& status) const {
    const auto process = "worker " + std::to_string(what.worker());
    if (what.kind == hang_kind::loss) {
      const auto text = process + (what.worker() == 0 ? ", the leader," : "")
                        + " was lost in step " + std::to_string(what.step);
      return std::ranges::any_of(status.decisions, [&](const decision& x) {
        return x.text.find(text + ":") != std::string::npos;
      });
    }
    missing_role expected;
    expected.replica = what.replica;
    expected.process = process;
    switch (what.kind) {
      case hang_kind::before_gather:
        expected.operation = "the gather of bucket ";
        break;
      case hang_kind::no_run:
        expected.replica = missing_role::none;
        expected.operation = "the next run";
        break;
      default:
        expected.operation = "the sum of bucket ";
    }
    if (what.kind != hang_kind::no_run)
      expected.operation += std::to_string(what.bucket);
    return status.step == what.step
           && std::ranges::any_of(status.missing, [&](const missing_role& x) {
                return x.replica == expected.replica
                       && x.process == expected.process
                       && x.operation == expected.operation;
              });
  }

  /// Asks until the answer is right, at most until 1 s after the deadline of
  /// the step.
  void ask(const strategy& on) {
    const auto deadline = where.begin() + step_timeout + 1s;
    job_status last;
    do
      last = on.explain();
    while (!is_named(last) && clock_type::now() < deadline);
    EXPECT_TRUE(is_named(last)) << description << "\n" << last;
    where.open();
  }

  const hang what;
  std::string description;
  gate where;
};

TEST_P(InjectedHang, IsExplained) {
  SCOPED_TRACE(description);
  multi_worker_options options;
  options.devices.assign(what.devices, "cpu:0");
  for (std::uint32_t d = 0; d < what.devices; ++d)
    options.devices[d] = "cpu:" + std::to_string(d);
  options.communication.timeout = step_timeout;
  std::shared_ptr<packet_loss> faults;
  if (what.kind == hang_kind::lost_packets)
    options.faults = faults = std::make_shared<packet_loss>(what);
  const auto thrown = run_on_cluster(
    what.workers, options, [&](const strategy& on, std::uint32_t w) {
      std::thread asks;
      if (w == what.asker)
        asks = std::thread{[&] {
          ask(on);
          if (faults)
            faults->is_over = true;
        }};
      try {
        for (std::uint64_t s = 0; s <= what.step; ++s) {
          if (what.kind == hang_kind::no_run && s == what.step
              && w == what.worker())
            where.wait();
          on.run([&](replica_context& self) { step(on, self, s); });
        }
      } catch (...) {
        if (asks.joinable())
          asks.join();
        throw;
      }
      if (asks.joinable())
        asks.join();
    });
  if (faults) {
    EXPECT_TRUE(faults->dropped);
  }
  if (what.kind == hang_kind::loss) {
    EXPECT_NE(exception_text(thrown[what.worker()]), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, InjectedHang,
                         ::testing::Range<std::uint64_t>(0, cases));

} // namespace
