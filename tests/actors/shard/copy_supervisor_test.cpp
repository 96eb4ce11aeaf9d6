#include "troupe/actors/core/log.hpp"
#include "troupe/actors/shard/copy_supervisor.hpp"
#include "troupe/simulation/simulator.hpp"

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Connections to lost servers. Copies over sockets are in
// tests/training/parameter_server/copies_test.cpp.

namespace troupe {
namespace {

using namespace std::chrono_literals;
using counts = std::vector<std::uint32_t>;

/// A host whose copies are in sync in each view.
shard_host_actor::behavior_type host(shard_host_actor::pointer) {
  return {
    [](const shard_request&, const tensors&) {
      return caf::result<shard_answer, tensors>{shard_answer{}, tensors{}};
    },
    [](const shard_push&, const tensors&) { return shard_pushed{}; },
    [](const shard_pull&, const tensors&) {
      return caf::result<parameter_server::pulled, tensors>{
        parameter_server::pulled{}, tensors{}};
    },
    [](const shard_accepted&) { return parameter_server::serving{}; },
    [](const shard_decision&) { return parameter_server::decided{}; },
    [](const shard_decision_query&) {
      return parameter_server::last_decision{};
    },
    [](atom::next, std::uint64_t) { return copy_table{}; },
    [](const copy_table& x, std::uint64_t poll) {
      copy_report out{poll, {}, {}, {}, {}};
      for (const auto& one : x.shards) {
        out.view_ids.push_back(one.view_id);
        out.terms.push_back(one.term);
        out.sequences.push_back(0);
        out.is_in_sync.push_back(1);
      }
      return out;
    },
    [](const copy_record&, const tensors&) {
      return parameter_server::stored{};
    },
    [](const copy_snapshot&, const tensors&) {
      return parameter_server::stored{};
    },
    [](const copy_inquiry&) { return parameter_server::stored{}; },
    [](const copy_in_sync&) { return parameter_server::stored{}; },
  };
}

/// Servers "a" and "b". The connections to lost ones are made by the test.
class CopySupervisor : public ::testing::Test {
protected:
  CopySupervisor() {
    log_to(
      [this](log_level, std::string_view line) { lines.emplace_back(line); });
    const auto router =
      sim.spawn(shard_router,
                shard_router_config{
                  1, 1, {}, [](const std::string&, const caf::actor_addr&) {}});
    supervisor = sim.spawn(
      copy_supervisor, copy_supervisor_config{1,
                                              2,
                                              {link("a", 1), link("b", 2)},
                                              router,
                                              200ms,
                                              [this](const std::string& address,
                                                     const caf::actor_addr&) {
                                                attempts.push_back(address);
                                              }});
    sim.advance(100ms, 10ms);
  }
  ~CopySupervisor() override { log_to(nullptr); }

  host_link link(const std::string& address, std::uint64_t server) {
    hosts.push_back(sim.spawn(host));
    return {address, server, hosts.back(), {}, {}, false};
  }

  void lose(std::size_t host) {
    caf::anon_send_exit(hosts[host], caf::exit_reason::kill);
    sim.advance(100ms, 10ms);
  }

  /// Answers an attempt to connect.
  void answer(const host_link& x) {
    caf::anon_send(supervisor, x);
    sim.run_until_idle();
  }

  copies_status status() {
    caf::scoped_actor self{sim.sys, true};
    auto reply = self->request(supervisor, 5s, atom::status_v);
    sim.run_until_idle();
    copies_status out;
    reply.receive([&](const copies_status& x) { out = x; },
                  [](const caf::error&) { ADD_FAILURE() << "no status"; });
    return out;
  }

  std::ptrdiff_t lines_with(const std::string& text) const {
    return std::ranges::count_if(lines, [&](const std::string& x) {
      return x.find(text) != std::string::npos;
    });
  }

  std::vector<std::string> attempts, lines;
  simulation::simulator sim;
  std::vector<shard_host_actor> hosts;
  copy_supervisor_actor supervisor;
};

TEST_F(CopySupervisor, AddsTheProcessAtTheAddressOfALostServer) {
  EXPECT_EQ(status().in_sync, counts{2});
  lose(0);
  EXPECT_EQ(attempts, std::vector<std::string>{"a"});
  sim.advance(1s, 10ms); // one attempt at a time
  EXPECT_EQ(attempts.size(), 1u);
  answer({"a", 0, {}, {}, "no process listens", false});
  sim.advance(100ms, 10ms);
  EXPECT_EQ(attempts.size(), 2u);
  EXPECT_EQ(status().in_sync, counts{1});
  EXPECT_TRUE(status().is_settled); // there is one server
  EXPECT_EQ(lines_with("are in sync again"), 0);
  answer(link("a", 3));
  sim.advance(10s, 10ms);
  EXPECT_EQ(attempts.size(), 2u);
  EXPECT_EQ(status().in_sync, counts{2});
  EXPECT_EQ(status().losses, 1u);
  EXPECT_EQ(lines_with("the parameter server at a has joined again"), 1);
  EXPECT_EQ(lines_with("all copies of the parameter servers are in sync again"),
            1);
}

TEST_F(CopySupervisor, DoesNotTakeTheLostProcessBack) {
  lose(0);
  answer(link("a", 1)); // its connection was cut
  sim.advance(4s, 10ms);
  EXPECT_EQ(attempts.size(), 1u);
  sim.advance(2s, 10ms);
  EXPECT_EQ(attempts.size(), 2u);
  answer({"a", 0, {}, {}, "it has copies already", true});
  sim.advance(6s, 10ms);
  EXPECT_EQ(attempts.size(), 3u);
  EXPECT_EQ(status().in_sync, counts{1});
  EXPECT_EQ(lines_with("cannot connect again to the parameter server at a"), 1);
  answer(link("a", 3)); // it was started again
  sim.advance(100ms, 10ms);
  EXPECT_EQ(status().in_sync, counts{2});
}

} // namespace
} // namespace troupe
