#include "troupe/actors/node/blocking_client.hpp"
#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/node/remote_node.hpp"
#include "troupe/net/transport/lane_set.hpp"
#include "troupe/tensors/base/memory.hpp"
#include "troupe/tests/net/security/certificates.hpp"
#include "troupe/tests/strategies/tensor_transfer/transfer_ends.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/support/timeouts.hpp"

#include <caf/scoped_actor.hpp>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

// In these tests, a client sends large tensors to a role of a node over real
// sockets. Client and node are in one process.

using namespace troupe;
using namespace std::chrono_literals;
using tensor_transfer::testing::bytes_tensor;

namespace {

using troupe::test::becomes_true;
using troupe::test::patience;
constexpr std::int64_t mib = std::int64_t{1} << 20;

/// Keeps a role from handling messages until the test opens the gate.
class gate {
public:
  void wait() {
    std::unique_lock hold{lock_};
    changed_.wait_for(hold, patience, [this] { return is_open_; });
  }
  void open() {
    const std::lock_guard hold{lock_};
    is_open_ = true;
    changed_.notify_all();
  }

private:
  std::mutex lock_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

using store_actor = caf::typed_actor<
  // Returns the tensors.
  caf::replies_to<tensors>::with<tensors>,
  // Appends the size of the tensor to the log.
  caf::reacts_to<atom::next, tensor>,
  // Returns the size of the tensor.
  caf::replies_to<tensor>::with<std::int64_t>,
  // Returns the log.
  caf::replies_to<atom::info>::with<std::vector<std::int64_t>>,
  // Waits until the gate is open.
  caf::reacts_to<atom::run>>;

struct store_state {
  std::vector<std::int64_t> log;
};

store_actor::behavior_type
store(store_actor::stateful_pointer<store_state> self, gate* held) {
  const auto size_of = [](const tensor& x) {
    return static_cast<std::int64_t>(x.size());
  };
  return {
    [](const tensors& xs) { return xs; },
    [=](atom::next, const tensor& x) { self->state.log.push_back(size_of(x)); },
    [=](const tensor& x) { return size_of(x); },
    [self](atom::info) { return self->state.log; },
    [held](atom::run) { held->wait(); },
  };
}

using barrier_actor =
  caf::typed_actor<caf::replies_to<tensor>::with<std::int64_t>>;

struct barrier_state {
  std::vector<caf::typed_response_promise<std::int64_t>> waiting;
};

/// Responds to all requests when the third has arrived.
barrier_actor::behavior_type
barrier(barrier_actor::stateful_pointer<barrier_state> self) {
  return {[self](const tensor&) {
    auto promise = self->make_response_promise<std::int64_t>();
    self->state.waiting.push_back(promise);
    if (self->state.waiting.size() == 3)
      for (auto& one : self->state.waiting)
        one.deliver(std::int64_t{3});
    return promise;
  }};
}

/// A node and a client that are connected over "shm", "tcp" or "tls".
struct connected_node : net::testing::certificate_test {
  void TestBody() override {}

  explicit connected_node(const std::string& kind) {
    if (kind == "tls")
      credentials.tls =
        std::make_shared<const net::credentials::certificates>(good());
    register_role<store_actor>(
      server_runtime, "store", [this](caf::actor_system& sys) {
        return store_actor{sys.spawn<caf::detached>(store, &held)};
      });
    register_role<barrier_actor>(server_runtime, "barrier", barrier);
    node_server_options options;
    options.connection.credentials = credentials;
    options.log = [](net::severity, const std::string&) {};
    server.emplace(server_runtime, options);
    client.emplace(client_runtime, server->address(),
                   client_options{.connection = {.credentials = credentials},
                                  .request_timeout = patience,
                                  .shared_memory = kind == "shm"});
    role = client->spawn<store_actor>("store");
  }
  ~connected_node() override { held.open(); }

  template <class T, class... Ts>
  T ask(const Ts&... xs) {
    return troupe::ask<T>(client_runtime.system(), "request", role, patience,
                          xs...);
  }

  gate held;
  net::credentials credentials;
  runtime server_runtime, client_runtime;
  std::optional<node_server> server;
  std::optional<remote_node> client;
  store_actor role;
};

/// Waits until the process uses at least this memory for tensors.
void wait_for_memory(std::size_t bytes) {
  EXPECT_TRUE(becomes_true([&] { return memory::used().live >= bytes; }));
}

struct RemoteTensors : ::testing::TestWithParam<std::string> {};

} // namespace

TEST_P(RemoteTensors, PassBothWaysBitForBit) {
  connected_node pair{GetParam()};
  const tensors sent{bytes_tensor(5 * mib + 3, 1), bytes_tensor(7, 2), tensor{},
                     bytes_tensor(mib, 3)};
  const auto got = pair.ask<tensors>(sent);
  ASSERT_EQ(got.size(), sent.size());
  EXPECT_FALSE(got[2]);
  for (const std::size_t i : {0, 1, 3})
    EXPECT_TRUE(same_bits(got[i], sent[i])) << i;
}

TEST_P(RemoteTensors, KeepTheOrderOfSmallAndLargeMessages) {
  connected_node pair{GetParam()};
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : {9 * mib, std::int64_t{5}, mib, 2 * mib,
                                  std::int64_t{1}, 3 * mib, std::int64_t{8}}) {
    caf::anon_send(pair.role, atom::next_v, bytes_tensor(size, 1));
    sizes.push_back(size);
  }
  // A request with a tensor has the priority of the other messages.
  EXPECT_EQ(pair.ask<std::int64_t>(bytes_tensor(4 * mib, 1)), 4 * mib);
  EXPECT_EQ(pair.ask<std::vector<std::int64_t>>(atom::info_v), sizes);
}

TEST_P(RemoteTensors, ForAStoppedRoleBoundTheMemoryOfTheNode) {
  connected_node pair{GetParam()};
  const auto at_start = memory::used().live;
  const auto value = bytes_tensor(16 * mib, 1);
  const auto before = memory::used().live;
  const auto block = before - at_start; // a block is larger than its tensor
  caf::anon_send(pair.role, atom::run_v);
  constexpr int count = 60;
  int responses = 0, busy = 0;
  {
    caf::scoped_actor self{pair.client_runtime.system()};
    std::vector<decltype(self->request(pair.role, 1s, value))> asked;
    for (int i = 0; i < count; ++i)
      asked.push_back(self->request(pair.role, patience, value));
    // The credits for tensors are 256 MiB. Each tensor uses a little more than
    // its elements.
    wait_for_memory(before + 15 * block);
    for (auto& other : {1, 2}) { // another role is not delayed
      const auto more = pair.client->spawn<store_actor>("store");
      EXPECT_EQ(troupe::ask<std::int64_t>(pair.client_runtime.system(), "other",
                                          more, patience,
                                          bytes_tensor(mib + other, 1)),
                mib + other);
    }
    EXPECT_LE(memory::used().live, before + 16 * block);
    pair.held.open();
    for (auto& one : asked)
      one.receive([&](std::int64_t) { ++responses; },
                  [&](const caf::error& e) { busy += e == ec::busy; });
  }
  release_caf_logger();
  EXPECT_EQ(responses + busy, count);
  EXPECT_GE(responses, 15);
  EXPECT_GE(busy, count - 15 - 2 * 16) << "credits bound the messages";
}

/// The tensors of the three requests exceed the 256 MiB that wait for a role.
TEST_P(RemoteTensors, OfRequestsThatWaitForEachOtherArrive) {
  connected_node pair{GetParam()};
  const auto role = pair.client->spawn<barrier_actor>("barrier");
  const auto value = bytes_tensor(100 * mib, 1);
  int responses = 0;
  {
    caf::scoped_actor self{pair.client_runtime.system()};
    std::vector<decltype(self->request(role, 1s, value))> asked;
    for (int i = 0; i < 3; ++i)
      asked.push_back(self->request(role, patience, value));
    for (auto& one : asked)
      one.receive([&](std::int64_t x) { responses += x == 3; },
                  [&](const caf::error& e) {
                    ADD_FAILURE() << pair.client_runtime.system().render(e);
                  });
  }
  release_caf_logger();
  EXPECT_EQ(responses, 3);
}

TEST_P(RemoteTensors, InFlightFailWithTheReasonOfTheLostConnection) {
  connected_node pair{GetParam()};
  const auto value = bytes_tensor(64 * mib, 1);
  caf::anon_send(pair.role, atom::run_v);
  std::atomic<int> lost = 0, refused = 0;
  {
    const auto before = memory::used().live;
    std::vector<std::jthread> clients;
    for (int i = 0; i < 6; ++i)
      clients.emplace_back([&] {
        try {
          troupe::ask<std::int64_t>(pair.client_runtime.system(), "the role",
                                    pair.role, patience, value);
          ADD_FAILURE() << "the role is blocked, so it cannot respond";
        } catch (const job_error& e) {
          // A request that begins after the loss, but before the proxy hears
          // of it, is refused.
          (e.code == ec::busy ? refused : lost) += 1;
          EXPECT_TRUE(e.code == ec::busy || e.code == ec::peer_lost)
            << e.what();
        }
      });
    wait_for_memory(before + 1); // tensors are arriving
    pair.server.reset();
  }
  EXPECT_EQ(lost + refused, 6);
  EXPECT_GE(lost, 1);
}

INSTANTIATE_TEST_SUITE_P(Each, RemoteTensors,
                         ::testing::Values("shm", "tcp", "tls"),
                         [](const auto& x) { return x.param; });

TEST(RemoteTensors, ForAnUnknownChannelEndTheConnection) {
  runtime server_runtime;
  node_server node{server_runtime,
                   {.connection = {.credentials = net::credentials{}}}};
  const auto endpoint =
    make_client_endpoint({.connection = {.credentials = net::credentials{}}});
  net::hello hello{{}, "hostile", 7, "node", net::encode(std::uint64_t{3})};
  const auto connection = connect(*endpoint, node.address(), hello, 5s);
  std::promise<std::string> ended;
  connection->on_closed(
    [&](net::close_reason, const std::string& why) { ended.set_value(why); });
  hello.purpose = "tensors";
  std::vector<std::unique_ptr<net::stream>> streams;
  streams.push_back(connect_stream(*endpoint, node.address(), hello, 5s));
  const auto opened = net::open_lanes(std::move(streams), {.is_dialer = true});
  tensor_transfer::sender sender{{0, 7, server_runtime.incarnation()}};
  sender.send(99, 1, {bytes_tensor(mib)});
  ASSERT_TRUE(
    opened.lanes.front()->post(tensor_transfer::write(sender.next()->header),
                               std::span<const std::byte>{}));
  opened.lanes.front()->flush();
  auto reason = ended.get_future();
  ASSERT_EQ(reason.wait_for(patience), std::future_status::ready);
  const auto text = reason.get();
  EXPECT_NE(text.find("channel 99, which does not exist"), text.npos) << text;
}
