#include "troupe/actors/group/world.hpp"
#include "troupe/actors/membership/actor/spawn_membership.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/tests/support/loopback_channel.hpp"
#include "troupe/tests/support/timeouts.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

using troupe::test::patience;

/// A connection that only tells that it was closed.
class fake_connection final : public net::connection {
public:
  std::shared_ptr<net::channel> open(std::uint32_t) override { return nullptr; }
  const net::hello& peer() const override { return peer_; }
  std::chrono::milliseconds silence() const override { return 0ms; }
  void on_closed(
    std::function<void(net::close_reason, const std::string&)>) override {}
  void close(const std::string& reason) override { closed.set_value(reason); }

  std::promise<std::string> closed;

private:
  net::hello peer_;
};

/// Ends a membership actor, and waits until it has ended.
void end(membership_actor&& member) {
  const auto ended = std::make_shared<std::promise<void>>();
  const auto actor = caf::actor_cast<caf::actor>(std::exchange(member, {}));
  actor->attach_functor([ended] { ended->set_value(); });
  caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  EXPECT_EQ(ended->get_future().wait_for(patience), std::future_status::ready);
}

TEST(MembershipActor, ThatHasEndedClosesTheConnectionOfALateDial) {
  runtime actors;
  std::promise<membership_options::dial_callback> dialed;
  membership_options options;
  options.processes.names = {"worker 0", "worker 1"};
  options.self.task = 1;
  options.joins = true;
  options.peers = std::make_shared<peer_table>(2);
  options.dial_to_join = [&](std::uint32_t, const membership::member*,
                             std::chrono::milliseconds,
                             membership_options::dial_callback on_done) {
    dialed.set_value(std::move(on_done));
  };
  auto member = spawn_membership(actors.system(), options);
  auto on_done = dialed.get_future().get();
  end(std::move(member));
  const auto connection = std::make_shared<fake_connection>();
  net::endpoint::dial_result result;
  result.connection = std::shared_ptr<net::connection>{connection};
  on_done(std::move(result));
  EXPECT_EQ(connection->closed.get_future().wait_for(patience),
            std::future_status::ready);
}

/// A connection whose other end is in the test. The messages of a channel
/// arrive there, in order, when the test takes them.
class connection_to_test final : public net::connection {
public:
  std::shared_ptr<net::channel> open(std::uint32_t number) override {
    const std::lock_guard hold{lock_};
    auto& opened = channels_[number];
    opened.end_in_test()->set_listener(opened.received);
    opened.both.set_post_listener([this] {
      const std::lock_guard hold{lock_};
      ++posts_;
      changed_.notify_all();
    });
    return opened.both.end_of(net::loopback_channel::left);
  }
  const net::hello& peer() const override { return peer_; }
  std::chrono::milliseconds silence() const override { return 0ms; }
  void on_closed(
    std::function<void(net::close_reason, const std::string&)>) override {}
  bool ended_by_close() const override { return false; }
  void close(const std::string& reason) override {
    const std::lock_guard hold{lock_};
    closed_for_ = reason;
  }
  /// Why this end was closed. Empty: it was not.
  std::string closed_for() {
    const std::lock_guard hold{lock_};
    return closed_for_;
  }

  /// Waits for a message, which `decode` reads from the payload of a frame.
  /// @param decode returns nullopt for a message that is not waited for.
  template <class Message, class F>
  Message wait_for(std::uint32_t channel, F&& decode) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    std::unique_lock hold{lock_};
    do {
      const auto posts = posts_;
      hold.unlock();
      if (auto found = take<Message>(channel, decode))
        return *std::move(found);
      hold.lock();
      changed_.wait_until(hold, deadline, [&] { return posts_ > posts; });
    } while (std::chrono::steady_clock::now() < deadline);
    ADD_FAILURE() << "no such message has arrived";
    return {};
  }

  void send(std::uint32_t channel, std::vector<std::byte> payload) {
    auto& opened = *find(channel);
    ASSERT_TRUE(opened.end_in_test()->post({net::frame_kind::oneway,
                                            net::priority::control, 0, 1,
                                            std::move(payload)}));
    opened.both.deliver();
  }

  /// Ends the connection, whose channels end together.
  void end_with(net::close_reason cause, const std::string& reason) {
    find(membership_channel)->both.close_with(cause, reason);
  }

private:
  struct frame_list final : net::channel_listener {
    void on_frame(net::frame&& x) override {
      payloads.push_back(std::move(x.payload));
    }
    void on_closed(net::close_reason, const std::string&) override {}
    std::vector<std::vector<std::byte>> payloads;
  };
  struct opened_channel {
    std::shared_ptr<net::channel> end_in_test() const {
      return both.end_of(net::loopback_channel::right);
    }
    net::loopback_channel both;
    std::shared_ptr<frame_list> received = std::make_shared<frame_list>();
  };

  /// Takes the messages that have arrived, up to the one that is waited for.
  template <class Message, class F>
  std::optional<Message> take(std::uint32_t channel, F&& decode) {
    auto* const opened = find(channel);
    if (!opened)
      return {};
    opened->both.deliver();
    for (auto& payload : std::exchange(opened->received->payloads, {}))
      if (std::optional<Message> found = decode(payload))
        return found;
    return {};
  }

  /// @returns null if the channel is not open yet.
  opened_channel* find(std::uint32_t number) {
    const std::lock_guard hold{lock_};
    const auto it = channels_.find(number);
    return it == channels_.end() ? nullptr : &it->second;
  }

  const net::hello peer_{};
  std::mutex lock_;
  std::condition_variable changed_;
  std::uint64_t posts_ = 0; ///< Number of messages of the actor.
  std::string closed_for_;
  std::map<std::uint32_t, opened_channel> channels_; ///< By number.
};

/// The leader of a job that has begun with two further processes. The test is
/// these processes.
class leader_of_three {
public:
  static constexpr std::uint64_t first_incarnation = 10; ///< Of task 0.

  leader_of_three() {
    options.processes.names = {"worker 0", "worker 1", "worker 2"};
    options.self = request_of(0);
    options.peers = std::make_shared<peer_table>(3);
    options.watch = [](const net::process_identity&) { return nullptr; };
    options.stop_delay = 1ms;
    leader = spawn_membership(actors.system(), options);
    for (std::uint32_t task = 1; task < 3; ++task)
      tell(membership_event::accepted{to(task), request_of(task)});
    tell(membership_event::lanes_open{});
    for (std::uint32_t task = 1; task < 3; ++task) {
      wait_for(task, membership::message_kind::view);
      connection(task).send(membership_channel,
                            net::encode(membership::message_kind::ready,
                                        std::string{},
                                        membership::view{1, {}}));
    }
    wait_for(1, membership::message_kind::start);
  }
  ~leader_of_three() { end(std::move(leader)); }
  leader_of_three(const leader_of_three&) = delete;
  leader_of_three& operator=(const leader_of_three&) = delete;

  peer_table& table() { return *options.peers; }

  /// The connection of the leader to a task.
  connection_to_test& connection(std::uint32_t task) { return *to(task); }

  /// Lets a task connect again whose connection was cut.
  void connect_again(std::uint32_t task) {
    connections.at(task - 1) = std::make_shared<connection_to_test>();
    tell(membership_event::accepted_again{to(task),
                                          {task, first_incarnation + task}});
  }

  /// Waits until the leader begins an attempt to agree on the next view.
  /// @returns what it tells worker 1 then.
  view_change::knowledge told_in_attempt() {
    return connection(1)
      .wait_for<view_change::message>(
        view_change_channel,
        [](const std::vector<std::byte>& payload) {
          std::optional<view_change::message> out{std::in_place};
          if (net::decode(payload, *out)
              || out->kind != view_change::message_kind::prepare)
            out.reset();
          return out;
        })
      .known;
  }

private:
  static membership::join_request request_of(std::uint32_t task) {
    return {task, first_incarnation + task, "host", 1, 1, {}};
  }

  template <class Event>
  void tell(Event&& event) {
    caf::anon_send(leader, std::forward<Event>(event));
  }

  void wait_for(std::uint32_t task, membership::message_kind kind) {
    connection(task).wait_for<membership::message>(
      membership_channel, [kind](const std::vector<std::byte>& payload) {
        std::optional<membership::message> out{std::in_place};
        if (net::decode(payload, out->kind, out->text, out->view)
            || out->kind != kind)
          out.reset();
        return out;
      });
  }

  const std::shared_ptr<connection_to_test>& to(std::uint32_t task) {
    return connections.at(task - 1);
  }

  runtime actors;
  std::array<std::shared_ptr<connection_to_test>, 2> connections{
    std::make_shared<connection_to_test>(),
    std::make_shared<connection_to_test>()};
  membership_options options;
  membership_actor leader;
};

using incarnations = std::vector<std::uint64_t>;

/// Of two members that cannot reach each other, the one that was silent is
/// excluded. So the others must hear of the silence.
TEST(MembershipActor, TellsTheOthersThatALostMemberWasSilent) {
  leader_of_three it;
  it.connection(2).end_with(net::close_reason::timed_out,
                            "it sent nothing for 1000 ms");
  const auto told = it.told_in_attempt();
  EXPECT_EQ(told.unreachable, incarnations{it.first_incarnation + 2});
  EXPECT_EQ(told.silent, incarnations{it.first_incarnation + 2});
}

TEST(MembershipActor, DoesNotCallAMemberSilentWhoseConnectionWasClosed) {
  leader_of_three it;
  it.connection(2).end_with(net::close_reason::closed, "the stream ends");
  const auto told = it.told_in_attempt();
  EXPECT_EQ(told.unreachable, incarnations{it.first_incarnation + 2});
  EXPECT_EQ(told.silent, incarnations{});
}

TEST(MembershipActor, EndsARecoveryWhoseProgramWantsToStop) {
  leader_of_three it;
  std::atomic<bool> is_to_stop = false;
  std::promise<failure_report> ended;
  it.table().update([&] {
    it.table().stop.end_run = [&](const failure_report& x) {
      it.table().get([&] {
        it.table().stop.is_to_stop = {};
        return 0;
      });
      ended.set_value(x);
    };
    it.table().stop.is_to_stop = [&] { return is_to_stop.load(); };
    it.table().stop.recovers = true;
  });
  is_to_stop = true;
  auto end = ended.get_future();
  ASSERT_EQ(end.wait_for(patience), std::future_status::ready);
  EXPECT_EQ(end.get().code, ec::cancelled);
  it.table().update([&] {
    EXPECT_TRUE(it.table().stop.end_of_runs);
    it.table().stop.end_run = {};
  });
}

/// Lets the replicas of the leader run until `end_run` is called.
std::future<failure_report> end_of_run(leader_of_three& it) {
  const auto ended = std::make_shared<std::promise<failure_report>>();
  it.table().update([&] {
    it.table().stop.has_group = true;
    it.table().stop.end_run = [ended](const failure_report& x) {
      ended->set_value(x);
    };
  });
  return ended->get_future();
}

// A partition may be over before the run is ended because of it.
TEST(MembershipActor, NamesTheLostMemberAlsoIfItHasConnectedAgain) {
  leader_of_three it;
  auto end = end_of_run(it);
  it.connection(2).end_with(net::close_reason::timed_out,
                            "it sent nothing for 1000 ms");
  it.connect_again(2);
  ASSERT_EQ(end.wait_for(patience), std::future_status::ready);
  EXPECT_EQ(end.get().cause,
            "worker 2 was disconnected: it sent nothing for 1000 ms");
}

TEST(MembershipActor, NamesWhoHasBegunAChangeForALossThatItHasNotSeen) {
  leader_of_three it;
  auto end = end_of_run(it);
  view_change::message prepare;
  prepare.kind = view_change::message_kind::prepare;
  prepare.view_id = 1;
  prepare.number = {1, 1};
  prepare.known.unreachable = {it.first_incarnation + 2};
  it.connection(1).send(view_change_channel, net::encode(prepare));
  ASSERT_EQ(end.wait_for(patience), std::future_status::ready);
  // The leader may have begun an attempt of its own meanwhile.
  const auto cause = end.get().cause;
  EXPECT_NE(cause.find("worker 1"), cause.npos) << cause;
  EXPECT_NE(cause.find("cannot reach worker 2"), cause.npos) << cause;
}

// -- results that a process that joins asks for -------------------------------

/// A process that joins the job of worker 0, which the test is.
class joining_process {
public:
  joining_process() {
    options.processes.names = {"worker 0", "worker 1"};
    options.self = {1, 11, "host", 1, 1, {}};
    options.joins = true;
    options.peers = std::make_shared<peer_table>(2);
    options.dial_to_join = [this](std::uint32_t, const membership::member*,
                                  std::chrono::milliseconds,
                                  membership_options::dial_callback on_done) {
      net::endpoint::dial_result made;
      made.connection = std::shared_ptr<net::connection>{to_member};
      made.peer.incarnation = 10;
      on_done(std::move(made));
    };
    actor = spawn_membership(actors.system(), options);
    auto& table = *options.peers;
    std::unique_lock hold{table.lock};
    EXPECT_TRUE(table.wait(hold, peer_table::clock::now() + patience, [&] {
      return table.entries[0].connection != nullptr;
    }));
  }
  ~joining_process() { end(std::move(actor)); }
  joining_process(const joining_process&) = delete;
  joining_process& operator=(const joining_process&) = delete;

  /// Lets the process ask for the results from a call on, and waits until it
  /// has done so.
  void ask(std::uint64_t call) {
    caf::anon_send(actor, membership_event::request_results{call});
    to_member->wait_for<membership::call_results>(
      result_channel, [call](const std::vector<std::byte>& payload) {
        std::optional<membership::call_results> out{std::in_place};
        if (net::decode(payload, *out) || !out->is_question
            || out->first != call)
          out.reset();
        return out;
      });
  }
  void answer(std::uint64_t first, std::vector<std::string> results) {
    to_member->send(result_channel, net::encode(membership::call_results{
                                      false, first, std::move(results)}));
  }
  std::vector<std::string> results() {
    return options.peers->get([this] { return options.peers->log.results; });
  }

  runtime actors;
  std::shared_ptr<connection_to_test> to_member =
    std::make_shared<connection_to_test>();
  membership_options options;
  membership_actor actor;
};

using texts = std::vector<std::string>;

// Else a member could let the log grow without limit.
TEST(MembershipActor, TakesOneAnswerOfAMemberForEachRequestOfResults) {
  joining_process it;
  it.ask(0);
  it.answer(0, {"a"});
  it.answer(0, {"a", "b"});
  it.answer(1, {"b"});
  it.ask(1); // handled after the answers
  EXPECT_EQ(it.results(), texts{"a"});
  it.answer(1, {"c"});
  it.ask(2);
  EXPECT_EQ(it.results(), (texts{"a", "c"}));
}

TEST(MembershipActor, TakesNoResultsBeforeItHasAskedForThem) {
  joining_process it;
  it.ask(1);
  it.answer(0, {"a"});
  it.answer(1, {"b"}); // the log lacks the one before
  it.ask(0);
  EXPECT_EQ(it.results(), texts{});
}

// All members answer with the same results.
TEST(MembershipActor, CountsAResultThatAnotherMemberHasToldOnce) {
  joining_process it;
  it.options.peers->update([&] {
    it.options.peers->log.results = {"ab"};
    it.options.peers->log.bytes = peer_table::result_log::max_bytes - 1;
  });
  it.ask(0);
  it.answer(0, {"ab", "c"});
  it.ask(0);
  EXPECT_EQ(it.results(), (texts{"ab", "c"}));
  EXPECT_EQ(it.to_member->closed_for(), "");
}

TEST(MembershipActor, ClosesTheConnectionOfAMemberWithTooManyResults) {
  joining_process it;
  it.options.peers->update([&] {
    it.options.peers->log.bytes = peer_table::result_log::max_bytes - 1;
  });
  it.ask(0);
  it.answer(0, {"ab"});
  it.ask(0);
  EXPECT_EQ(it.results(), texts{});
  EXPECT_EQ(it.to_member->closed_for(),
            "the results of calls take more than 64 MiB");
}

} // namespace
