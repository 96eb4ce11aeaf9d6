#include "losses.hpp"
#include "troupe/actors/flight/flight_recorder.hpp"
#include "troupe/actors/node/status_query.hpp"
#include "troupe/net/base/descriptor.hpp"
#include "troupe/net/cluster/launcher_link.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/training/support/flight_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <future>
#include <latch>
#include <sstream>
#include <stdexcept>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

// Injected hangs and losses, and what `explain` says about them.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

using troupe::test::patience;

/// Asks until the status has what the test expects.
job_status
explained(const strategy& on,
          const std::function<bool(const job_status&)>& is_expected) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    auto out = on.explain();
    if (is_expected(out) || std::chrono::steady_clock::now() > deadline)
      return out;
  }
}

/// What a status must say about one missing role.
struct expectation {
  std::uint32_t replica;
  std::string process, operation;
  std::uint64_t step;
};

bool says(const job_status& status, const expectation& expected) {
  return status.step == expected.step
         && std::ranges::any_of(status.missing, [&](const missing_role& x) {
              return x.replica == expected.replica
                     && x.process == expected.process
                     && x.operation == expected.operation;
            });
}

void expect_says(const strategy& on, const expectation& expected) {
  const auto status =
    explained(on, [&](const job_status& x) { return says(x, expected); });
  EXPECT_TRUE(says(status, expected))
    << "expected replica " << expected.replica << " of " << expected.process
    << " in " << expected.operation << ", step " << expected.step << "\n"
    << status;
  EXPECT_NE(status.stall_reason, "") << status;
  // The text for people names it too.
  std::ostringstream text;
  text << status;
  EXPECT_NE(text.str().find(expected.operation), std::string::npos)
    << text.str();
}

constexpr auto no_replica = missing_role::none;

/// Two replicas in one process. The function of a test runs in a thread.
class ExplainLocal : public ::testing::Test {
protected:
  ~ExplainLocal() override {
    go_.count_down();
    if (work_.joinable())
      work_.join();
  }
  void in_background(std::function<void()> fn) {
    work_ = std::thread{[fn = std::move(fn)] {
      try {
        fn();
      } catch (const job_error&) { // the stalled step ends with one
      }
    }};
  }

  runtime actors;
  const mirrored_strategy on_{
    actors, {"cpu:0", "cpu:1"}, {.step_timeout = 20s}};
  std::latch go_{1};

private:
  std::thread work_;
};

TEST_F(ExplainLocal, NamesAReplicaThatHangsInTheStepFunction) {
  on_.run([] {}); // step 0
  in_background([this] {
    on_.run([this](replica_context& self) {
      if (self.replica_id() == 1)
        go_.wait();
      self.all_reduce(sum, tensor::full({4}, 1));
    });
  });
  expect_says(on_, {1, "this process", "the sum of bucket 0", 1});
  const auto status = explained(on_, [](const job_status& x) {
    return !x.missing.empty() && !x.missing[0].responds;
  });
  ASSERT_FALSE(status.missing.empty());
  EXPECT_FALSE(status.missing[0].responds) << status;
  EXPECT_EQ(status.missing[0].bucket, 0u);
}

TEST_F(ExplainLocal, SaysSinceWhenTheReplicaIsMissing) {
  in_background([this] {
    on_.run([this](replica_context& self) {
      if (self.replica_id() == 0)
        go_.wait();
      self.all_reduce(sum, tensor::full({4}, 1));
    });
  });
  const auto status = explained(on_, [](const job_status& x) {
    return !x.missing.empty() && x.missing[0].since_ms >= 300;
  });
  ASSERT_FALSE(status.missing.empty()) << status;
  EXPECT_GE(status.missing[0].since_ms, 300u);
  EXPECT_EQ(status.missing[0].since_ms, status.since_commit_ms);
}

TEST_F(ExplainLocal, NamesAReplicaThatWaitsForItsBatch) {
  in_background([this] {
    const auto inside = on_.scope();
    model it{small_net(), adam{}, {.seed = 5}};
    it.fit(digits_200()
             .batch(16)
             .map([this](const batch& x) {
               if (!in_cross_replica_context())
                 go_.wait();
               return x;
             })
             .prefetch(0));
  });
  const auto status = explained(on_, [](const job_status& x) {
    return x.missing.size() == 2
           && x.missing[0].operation == "its step function";
  });
  ASSERT_EQ(status.missing.size(), 2u) << status;
  EXPECT_EQ(status.missing[0].operation, "its step function") << status;
}

TEST_F(ExplainLocal, NamesACallbackThatBlocksTheChief) {
  in_background([this] {
    const auto inside = on_.scope();
    model it{small_net(), adam{}, {.seed = 5}};
    fit_options how;
    how.callbacks.push_back({.on_step = [this](const step_record& x) {
      if (x.step == 2)
        go_.wait();
    }});
    it.fit(digits_200().batch(16), how);
  });
  const auto status = explained(on_, [](const job_status& x) {
    return !x.missing.empty()
           && x.missing[0].operation.starts_with("the callbacks of step");
  });
  ASSERT_EQ(status.missing.size(), 1u) << status;
  EXPECT_EQ(status.missing[0].operation, "the callbacks of step 2") << status;
  EXPECT_EQ(status.missing[0].process, "this process");
}

TEST_F(ExplainLocal, OfNoRunIsMissingNothing) {
  on_.run([] {});
  const auto status = on_.explain();
  EXPECT_EQ(status.run, 0u);
  EXPECT_EQ(status.stall_reason, "");
  EXPECT_TRUE(status.missing.empty());
  EXPECT_TRUE(status.decisions.empty());
}

TEST(ExplainTurns, NamesTheReplicaWhoseTurnDoesNotEnd) {
  const auto on = turns(3);
  std::latch go{1};
  std::thread work{[&] {
    on.run([](replica_context&) {});
    on.run([&](replica_context& self) {
      if (self.replica_id() == 1)
        go.wait();
    });
  }};
  expect_says(on, {1, "this process", "its step function", 1});
  go.count_down();
  work.join();
  EXPECT_EQ(on.explain().stall_reason, "");
}

// -- several processes --------------------------------------------------------

/// Runs a job of two workers. `hang` is the step function; worker 0 asks from a
/// second thread, and so does worker 1.
void expect_both_say(const expectation& expected, multi_worker_options options,
                     const std::function<void(replica_context&)>& hang,
                     const std::function<void()>& release) {
  std::latch both{2};
  options.communication.timeout = 20'000ms;
  run_on_cluster(2, options, [&](const strategy& on, std::uint32_t) {
    std::thread asks{[&] {
      expect_says(on, expected);
      both.arrive_and_wait();
      release();
    }};
    try {
      on.run(hang);
    } catch (const job_error&) { // the stalled step
    }
    asks.join();
  });
}

TEST(ExplainCluster, AnyProcessNamesTheReplicaThatHangs) {
  std::atomic<bool> go = false;
  expect_both_say(
    {1, "worker 1", "the sum of bucket 0", 0}, {},
    [&](replica_context& self) {
      if (self.replica_id() == 1)
        go.wait(false);
      self.all_reduce(sum, tensor::full({4}, 1));
    },
    [&] {
      go = true;
      go.notify_all();
    });
}

/// Drops the packets of replica 1 from step 1 on, until `is_over`.
class lossy final : public fault_injector {
public:
  injected_fault on_send(const role_id& sender, const role_id&,
                         message_kind kind, std::uint64_t,
                         std::uint64_t step) override {
    // Also the packets after the first one, which would show that it is
    // missing.
    if (is_over
        || (kind != message_kind::contribution
            && kind != message_kind::gather_contribution)
        || sender != replica_id(1) || step < 1)
      return {};
    dropped = true;
    return {.dropped = true};
  }
  std::atomic<bool> dropped = false, is_over = false;
};

TEST(ExplainCluster, NamesTheReplicaWhosePacketWasDropped) {
  multi_worker_options options;
  const auto faults = std::make_shared<lossy>();
  options.faults = faults;
  run_on_cluster(2, options, [&](const strategy& on, std::uint32_t w) {
    const auto add = [](replica_context& self) {
      self.all_reduce(sum, tensor::full({4}, 1));
    };
    on.run(add);
    std::thread asks{[&] {
      if (w == 0) {
        expect_says(on, {1, "worker 1", "the sum of bucket 0", 1});
        faults->is_over = true;
      }
    }};
    on.run(add); // goes on when the loss is noticed
    asks.join();
  });
  EXPECT_TRUE(faults->dropped);
}

/// The chief does not return from the handler in which it starts the steps of a
/// run.
class blocked_chief final : public fault_injector {
public:
  injected_fault on_send(const role_id& sender, const role_id&,
                         message_kind kind, std::uint64_t,
                         std::uint64_t) override {
    if (sender.role == role_id::kind::chief
        && kind == message_kind::start_steps)
      go.wait(false);
    return {};
  }
  std::atomic<bool> go = false;
};

TEST(ExplainCluster, AnyProcessSaysThatTheChiefIsSilent) {
  const auto faults = std::make_shared<blocked_chief>();
  multi_worker_options options;
  options.faults = faults;
  expect_both_say(
    {no_replica, "worker 0", "the chief", 0}, options, [](replica_context&) {},
    [&] {
      faults->go = true;
      faults->go.notify_all();
    });
}

TEST(ExplainCluster, NamesTheProcessThatDoesNotJoinTheRun) {
  std::latch asked{1};
  run_on_cluster(2, {}, [&](const strategy& on, std::uint32_t w) {
    std::thread asks{[&] {
      if (w == 0) {
        expect_says(on, {no_replica, "worker 1", "the next run", 0});
        asked.count_down();
      }
    }};
    if (w == 1)
      asked.wait();
    on.run([](replica_context&) {});
    asks.join();
  });
}

/// Trains on three workers. Worker 0, the chief, is cut off after step 5.
/// @param later called by the survivors in their callbacks of step 10.
/// @param after called by the survivors afterwards.
using with_worker = std::function<void(const strategy&, std::uint32_t)>;
void fit_without_the_chief(const with_worker& later,
                           const with_worker& after = {}) {
  std::vector<std::exception_ptr> thrown =
    run_on_cluster(3, {}, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how;
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (w == 0 && x.step == 5)
          cut_off(on);
        if (w > 0 && x.step == 10 && later)
          later(on, w);
      }});
      it.fit(uneven_batches(), how);
      if (after)
        after(on, w);
    });
  EXPECT_NE(exception_text(thrown[0]), "") << "the fault did not fire";
  EXPECT_EQ(exception_text(thrown[1]), "");
  EXPECT_EQ(exception_text(thrown[2]), "");
}

TEST(ExplainCluster, AfterALossHasTheViewChangeWithItsPhases) {
  std::vector<job_status> seen(3);
  fit_without_the_chief(
    {}, [&](const strategy& on, std::uint32_t w) { seen[w] = on.explain(); });
  for (const std::uint32_t w : {1, 2}) {
    const auto& status = seen[w];
    EXPECT_EQ(status.view_id, 2u) << status;
    EXPECT_EQ(status.members.at(0).state, member_state::lost) << status;
    if (w == 1) { // the chief, so it answers also when the other has ended
      EXPECT_GT(status.generation, 0u) << status;
    }
    const auto change = std::ranges::find_if(
      status.decisions, [](const decision& x) { return !x.phases.empty(); });
    ASSERT_NE(change, status.decisions.end()) << status;
    EXPECT_TRUE(change->complete) << status;
    EXPECT_NE(change->text.find("worker 0 was lost"), std::string::npos)
      << status;
    std::vector<std::string> names;
    for (const auto& x : change->phases)
      names.push_back(x.name);
    for (const auto* part :
         {"replicas stopped", "view 2 agreed (worker 1, worker 2)",
          "lanes opened", "positions gathered", "view entered"})
      EXPECT_TRUE(std::ranges::count(names, part)) << part << "\n" << status;
  }
}

TEST(ExplainCluster, AnyMemberAnswersStatusQueriesAfterTheLossOfTheChief) {
  std::vector<std::string> texts(3);
  fit_without_the_chief([&](const strategy& on, std::uint32_t w) {
    const auto& job = on.state()->cluster->implementation().options;
    runtime client;
    texts[w] = query_status(client, to_string(job.addresses[3 - w]));
  });
  for (const std::uint32_t w : {1, 2}) {
    EXPECT_EQ(texts[w].rfind("job job, view 2, generation ", 0), 0u)
      << texts[w];
    EXPECT_NE(texts[w].find("worker 0  lost"), std::string::npos) << texts[w];
    EXPECT_NE(texts[w].find("view 2 agreed (worker 1, worker 2)"),
              std::string::npos)
      << texts[w];
  }
}

/// Lets a survivor wait until the lost process has asked to join.
void wait_for_join(const strategy& on, std::once_flag& once,
                   std::promise<void>& may_join) {
  auto& peers = peers_of(on);
  std::unique_lock hold{peers.lock};
  const auto is_complete = [&] { return peers.view.members.size() == 3; };
  if (peers.view.view_id == 1 || is_complete())
    return;
  std::call_once(once, [&] { may_join.set_value(); });
  EXPECT_TRUE(peers.wait(hold, peer_table::clock::now() + patience, [&] {
    return peers.stop.requested || is_complete();
  }));
}

TEST(ExplainCluster, OfAJoinerHasTheCopiedBytes) {
  std::promise<void> may_join;
  auto is_alone = may_join.get_future();
  std::once_flag once;
  std::vector<job_status> seen(3);
  int lives = 0; // of worker 2
  const auto thrown =
    run_on_cluster(3, {}, [&](const strategy& on, std::uint32_t w) {
      const bool is_lost = w == 2 && lives++ == 0;
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 2};
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (is_lost && x.step == 3)
          cut_off(on);
        if (w != 2 && x.step >= 9)
          wait_for_join(on, once, may_join);
      }});
      try {
        it.fit(uneven_batches(), how);
      } catch (const job_error&) {
        if (!is_lost)
          throw;
        EXPECT_EQ(is_alone.wait_for(patience), std::future_status::ready);
        throw start_again{};
      }
      seen[w] = on.explain();
    });
  expect_nothing_thrown(thrown);
  EXPECT_EQ(lives, 2);
  const auto has_copied = [](const decision& x) {
    return std::ranges::any_of(x.phases, [](const decision_phase& y) {
      return y.name == "state copied" && y.bytes > 0;
    });
  };
  for (const auto& x : seen)
    EXPECT_TRUE(std::ranges::any_of(x.decisions, has_copied)) << x;
  EXPECT_TRUE(std::ranges::any_of(
    seen[0].decisions,
    [](const decision& x) { return x.text == "worker 2 joined with view 3"; }))
    << seen[0];
}

// -- files --------------------------------------------------------------------

/// Sets TROUPE_FLIGHT_DIR while it exists.
struct flight_directory {
  explicit flight_directory(const std::filesystem::path& path) {
    ::setenv("TROUPE_FLIGHT_DIR", path.c_str(), 1);
  }
  ~flight_directory() { ::unsetenv("TROUPE_FLIGHT_DIR"); }
};

std::vector<flight_record> records_in(const std::filesystem::path& directory) {
  std::vector<flight_record> out;
  for (const auto& x : std::filesystem::directory_iterator{directory})
    out.push_back(read_flight_file(x.path()));
  return out;
}

class FlightFile : public scratch_test {};

TEST_F(FlightFile, IsWrittenByEachProcessOfAJobThatFails) {
  const flight_directory where{folder};
  const auto thrown =
    run_on_cluster(2, {}, [&](const strategy& on, std::uint32_t w) {
      on.run([](replica_context&) {});
      on.run([&](replica_context& self) {
        if (w == 1)
          cut_off(on);
        self.all_reduce(sum, tensor::full({4}, 1));
      });
    });
  EXPECT_NE(exception_text(thrown[0]), "");
  const auto records = records_in(folder);
  ASSERT_EQ(records.size(), 2u);
  for (const auto& x : records) {
    EXPECT_EQ(x.identity.names,
              (std::vector<std::string>{"worker 0", "worker 1"}));
    EXPECT_EQ(x.error, exception_text(thrown[x.identity.task]));
    EXPECT_EQ(x.events.back().kind, flight_event_kind::job_failed);
    EXPECT_TRUE(std::ranges::count(x.events, flight_event_kind::disconnected,
                                   &flight_event::kind));
    EXPECT_TRUE(std::ranges::count(x.events, flight_event_kind::step_committed,
                                   &flight_event::kind));
  }
}

/// The chief is cut off from both others, which go on.
TEST_F(FlightFile, OfAProcessWithoutAMajorityNamesTheOthers) {
  const flight_directory where{folder};
  fit_without_the_chief({});
  const auto records = records_in(folder);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].identity.task, 0u);
  const auto lack = std::ranges::find(
    records[0].events, flight_event_kind::no_majority, &flight_event::kind);
  ASSERT_NE(lack, records[0].events.end());
  EXPECT_EQ(lack->text, "worker 1, worker 2");
}

/// A launcher of all processes of this test, which decides no question.
class undecided_launcher {
public:
  undecided_launcher() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::runtime_error("no sockets");
    own_ = net::descriptor{ends[0]};
    process_ = net::descriptor{ends[1]};
    ::setenv(net::launcher_link::variable,
             std::to_string(process_.get()).c_str(), 1);
    thread_ = std::thread{[this] { read(); }};
  }
  ~undecided_launcher() { end(); }

  /// Returns the lines that the processes have written.
  std::vector<std::string> end() {
    ::unsetenv(net::launcher_link::variable);
    process_.reset();
    if (thread_.joinable())
      thread_.join();
    return lines_;
  }

private:
  void read() {
    std::string line;
    for (char c = 0; ::read(own_.get(), &c, 1) == 1;) {
      if (c != '\n') {
        line += c;
        continue;
      }
      std::istringstream words{line};
      std::string kind, number;
      words >> kind >> number;
      const auto answer = net::launcher_link::undecided_line + number + "\n";
      if (kind == "survivors") {
        EXPECT_GT(::write(own_.get(), answer.data(), answer.size()), 0);
      }
      lines_.push_back(std::exchange(line, {}));
    }
  }

  net::descriptor own_, process_;
  std::vector<std::string> lines_;
  std::thread thread_;
};

/// The chief is cut off from both others, which go on.
TEST(GivingUp, IsToldToTheLauncher) {
  undecided_launcher launcher;
  fit_without_the_chief({});
  const auto lines = launcher.end();
  EXPECT_EQ(std::ranges::count(lines, "left"), 1) << lines.size();
  EXPECT_EQ(std::ranges::count(lines, "begun"), 3);
}

TEST_F(FlightFile, IsNotWrittenForAnExceptionOfTheUser) {
  const flight_directory where{folder};
  const auto on = turns(2);
  EXPECT_THROW(on.run([](replica_context&) { throw std::runtime_error{"x"}; }),
               std::runtime_error);
  EXPECT_TRUE(records_in(folder).empty());
}

TEST_F(FlightFile, OfAStalledStepSaysWhoWasMissing) {
  const flight_directory where{folder};
  runtime actors;
  const mirrored_strategy on{
    actors, {"cpu:0", "cpu:1"}, {.step_timeout = 200ms}};
  EXPECT_THROW(on.run([](replica_context& self) {
    if (self.replica_id() == 0)
      self.all_reduce(sum, tensor::full({4}, 1));
  }),
               job_error);
  const auto records = records_in(folder);
  ASSERT_EQ(records.size(), 1u);
  const auto missing = std::ranges::find(
    records[0].events, flight_event_kind::role_missing, &flight_event::kind);
  ASSERT_NE(missing, records[0].events.end());
  EXPECT_EQ(missing->replica, 1u);
  EXPECT_EQ(missing->text, "the sum of bucket 0");
}

} // namespace
