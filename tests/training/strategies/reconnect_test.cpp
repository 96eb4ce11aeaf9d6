#include "losses.hpp"
#include "troupe/actors/flight/flight_recorder.hpp"
#include "troupe/actors/membership/peers/join_hello.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/support/tcp_proxy.hpp"
#include "troupe/training/strategies/distributed_dataset.hpp"
#include "troupe/training/strategies/training_loop.hpp"
#include "troupe/training/support/flight_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

// Connections and lanes between living workers are cut or changed on their way.
// A proxy before each worker does that.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

/// Workers that dial each other through proxies.
class proxied_workers {
public:
  explicit proxied_workers(std::uint32_t count)
    : ports_{2 * std::size_t{count}} {
    net::cluster_spec::list addresses;
    for (std::uint32_t w = 0; w < count; ++w) {
      const auto outer = ports_.numbers()[w];
      const auto inner = ports_.numbers()[count + w];
      proxies.push_back(
        std::make_unique<tcp_proxy>(outer, net::address{"127.0.0.1", inner}));
      addresses.push_back("127.0.0.1:" + std::to_string(outer));
      listen_.push_back({"127.0.0.1", inner});
    }
    spec_ = net::cluster_spec{
      std::map<std::string, net::cluster_spec::list>{{"worker", addresses}}};
  }

  /// Calls `fn(strategy, worker)` on a thread for each worker.
  /// @returns the exception of each worker. Null: none.
  std::vector<std::exception_ptr>
  run(const std::function<void(const strategy&, std::uint32_t)>& fn) {
    std::vector<std::exception_ptr> thrown(listen_.size());
    std::vector<std::thread> threads;
    for (std::uint32_t w = 0; w < listen_.size(); ++w)
      threads.emplace_back([&, w] {
        try {
          runtime actors;
          const net::simple_resolver who{*spec_,
                                         {.task_type = "worker", .task_id = w}};
          multi_worker_options how;
          how.listen = listen_[w];
          how.transport = transport;
          // A busy machine may delay a heartbeat that passes a proxy.
          how.connection.heartbeat_timeout = 5s;
          how.faults = faults;
          const multi_worker_mirrored_strategy mine{actors, who, how};
          fn(mine, w);
        } catch (...) {
          thrown[w] = std::current_exception();
        }
      });
    for (auto& x : threads)
      x.join();
    return thrown;
  }

  transport_kind transport = transport_kind::tcp;
  std::shared_ptr<fault_injector> faults; ///< Of all workers. Null: none.
  /// By worker: what others dial.
  std::vector<std::unique_ptr<tcp_proxy>> proxies;

private:
  net::reserved_ports ports_;
  std::vector<net::address> listen_;
  std::optional<net::cluster_spec> spec_;
};

struct reconnect_outcome {
  std::string weights; ///< Empty: the fit threw.
  step_list steps;
  history past;
  membership::view view; ///< At the end of the fit.
};

fit_options two_epochs() {
  fit_options how{.epochs = 2}; // 13 steps each
  how.validation = uneven_batches();
  return how;
}

/// Called by each worker after each of its steps.
using fault_function = std::function<void(const strategy&, std::uint32_t worker,
                                          std::uint64_t step)>;

/// Trains on proxied workers.
std::vector<reconnect_outcome>
fit_with_faults(proxied_workers& workers, const fault_function& fault,
                std::vector<std::exception_ptr>* thrown = nullptr) {
  std::vector<reconnect_outcome> out(workers.proxies.size());
  const auto exceptions = workers.run([&](const strategy& on, std::uint32_t w) {
    const auto scope = on.scope();
    auto it = small_model();
    auto how = two_epochs();
    how.callbacks.push_back({.on_step = [&](const step_record& x) {
      out[w].steps.push_back(x.step);
      fault(on, w, x.step);
    }});
    out[w].past = it.fit(uneven_batches(), how);
    out[w].weights = it.weights_sha256();
    out[w].view = on.state()->cluster->current_view();
  });
  if (thrown)
    *thrown = exceptions;
  else
    expect_nothing_thrown(exceptions);
  return out;
}

const reconnect_outcome& undisturbed(std::uint32_t replicas) {
  static std::map<std::uint32_t, reconnect_outcome> all;
  const auto [it, is_new] = all.try_emplace(replicas);
  if (is_new) {
    const auto on = turns(replicas);
    const auto scope = on.scope();
    auto model = small_model();
    it->second.past = model.fit(uneven_batches(), two_epochs());
    it->second.weights = model.weights_sha256();
    it->second.steps = steps_to(model.steps());
  }
  return it->second;
}

void expect_undisturbed(const reconnect_outcome& found,
                        std::uint32_t replicas) {
  const auto& expected = undisturbed(replicas);
  EXPECT_EQ(found.weights, expected.weights);
  EXPECT_EQ(found.steps, expected.steps);
  ASSERT_EQ(found.past.epochs.size(), expected.past.epochs.size());
  for (std::size_t e = 0; e < found.past.epochs.size(); ++e) {
    EXPECT_EQ(found.past.epochs[e].examples, expected.past.epochs[e].examples);
    EXPECT_EQ(found.past.epochs[e].loss, expected.past.epochs[e].loss);
    EXPECT_EQ(found.past.epochs[e].validation_loss,
              expected.past.epochs[e].validation_loss);
  }
}

/// Expects the undisturbed result from all workers, and that all of them are
/// members in the end.
void expect_healed(const std::vector<reconnect_outcome>& found,
                   std::uint64_t min_view_id = 2) {
  const auto workers = static_cast<std::uint32_t>(found.size());
  for (const auto& x : found) {
    expect_undisturbed(x, workers);
    EXPECT_EQ(x.view.members.size(), workers);
    EXPECT_GE(x.view.view_id, min_view_id);
  }
}

TEST(FitReconnects, AControlConnectionOfTheChiefIsCut) {
  for (const std::uint32_t w : {1u, 2u}) {
    SCOPED_TRACE("worker " + std::to_string(w));
    proxied_workers three{3};
    const auto found =
      fit_with_faults(three, [&](auto&, std::uint32_t at, auto step) {
        if (at == w && step == 5)
          three.proxies[0]->cut("control", "worker " + std::to_string(w));
      });
    EXPECT_EQ(three.proxies[0]->cuts(), 1);
    EXPECT_GE(three.proxies[0]->connections("reconnect"), 1);
    expect_healed(found);
  }
}

TEST(FitReconnects, OneOfTwoWorkersIsCut) {
  proxied_workers two{2};
  const auto found =
    fit_with_faults(two, [&](auto&, std::uint32_t at, auto step) {
      if (at == 0 && step == 5)
        two.proxies[0]->cut("control");
    });
  EXPECT_EQ(two.proxies[0]->cuts(), 1);
  expect_healed(found);
}

/// No role uses this connection during a run, so nothing is redone.
TEST(FitReconnects, AConnectionBetweenOtherWorkersChangesNoView) {
  proxied_workers three{3};
  const auto found =
    fit_with_faults(three, [&](auto&, std::uint32_t at, auto step) {
      if (at == 0 && step == 5)
        three.proxies[1]->cut("peer");
      if (at == 0 && step == 6) // the fit goes on when they are connected
        three.proxies[1]->wait_for_connection("reconnect");
    });
  EXPECT_EQ(three.proxies[1]->cuts(), 1);
  EXPECT_GE(three.proxies[1]->connections("reconnect"), 1);
  expect_healed(found, 1);
  EXPECT_EQ(found[0].view.view_id, 1u);
}

/// So its end is seen, also if no other connection of it has told who it is.
TEST(FitReconnects, BothProcessesTellTheirIdentityAgain) {
  proxied_workers three{3};
  const auto expect_identity = [](const strategy& on, std::uint32_t other) {
    auto& peers = peers_of(on);
    std::unique_lock hold{peers.lock};
    const auto is_made_again = [&] {
      const auto& entry = peers.entries[other];
      return entry.connection && !entry.closed
             && entry.connection->peer().purpose == "reconnect";
    };
    ASSERT_TRUE(
      peers.wait(hold, peer_table::clock::now() + 60s, is_made_again));
    EXPECT_EQ(read_process_identity(peers.entries[other].connection->peer()),
              net::own_process_identity());
  };
  fit_with_faults(three, [&](auto& on, std::uint32_t at, auto step) {
    if (at == 0 && step == 5)
      three.proxies[1]->cut("peer");
    if (at > 0 && step == 25)
      expect_identity(on, 3 - at);
  });
  EXPECT_EQ(three.proxies[1]->cuts(), 1);
  EXPECT_NE(net::own_process_identity().number, 0u);
}

TEST(FitReconnects, ABitOfALaneIsFlipped) {
  for (const char* purpose : {"contributions", "results"}) {
    SCOPED_TRACE(purpose);
    proxied_workers three{3};
    const auto found =
      fit_with_faults(three, [&](auto&, std::uint32_t at, auto step) {
        if (at == 1 && step == 5)
          three.proxies[1]->flip(purpose); // dialed by worker 2
      });
    EXPECT_EQ(three.proxies[1]->flips(), 1);
    expect_healed(found);
  }
}

TEST(FitReconnects, ALaneIsCut) {
  for (const std::size_t to : {0u, 1u}) {
    SCOPED_TRACE("to worker " + std::to_string(to));
    proxied_workers three{3};
    const auto found =
      fit_with_faults(three, [&](auto&, std::uint32_t at, auto step) {
        if (at == 1 && step == 5)
          three.proxies[to]->cut("contributions", "worker 2");
      });
    EXPECT_EQ(three.proxies[to]->cuts(), 1);
    expect_healed(found);
  }
}

TEST(FitReconnects, ALaneOfSharedMemoryIsCut) {
  proxied_workers three{3};
  three.transport = transport_kind::shm;
  const auto found =
    fit_with_faults(three, [&](auto&, std::uint32_t at, auto step) {
      if (at == 1 && step == 5)
        three.proxies[0]->cut("results", "worker 2");
    });
  EXPECT_EQ(three.proxies[0]->cuts(), 1);
  expect_healed(found, 1); // the end may not be noticed before that of the fit
}

/// Injects one fault, into the first packet of a kind that follows `begin`.
class packet_fault final : public fault_injector {
public:
  packet_fault(message_kind kind, injected_fault fault)
    : kind_{kind}, fault_{fault} {}
  void begin() { has_begun_ = true; }
  bool has_occurred() const { return has_occurred_; }

  injected_fault on_send(const role_id&, const role_id&, message_kind,
                         std::uint64_t, std::uint64_t) override {
    return {};
  }
  injected_fault on_packet(const role_id&, const role_id&, message_kind kind,
                           std::uint64_t, std::uint64_t) override {
    if (kind != kind_ || !has_begun_ || has_occurred_.exchange(true))
      return {};
    return fault_;
  }

private:
  const message_kind kind_;
  const injected_fault fault_;
  std::atomic<bool> has_begun_ = false, has_occurred_ = false;
};

void expect_healed_packet(message_kind kind,
                          const fault_injector::injected_fault& fault,
                          transport_kind transport) {
  SCOPED_TRACE("kind " + std::to_string(int(kind)));
  proxied_workers three{3};
  const auto faults = std::make_shared<packet_fault>(kind, fault);
  three.faults = faults;
  three.transport = transport;
  const auto found =
    fit_with_faults(three, [&](auto&, std::uint32_t at, auto step) {
      if (at == 1 && step == 5)
        faults->begin();
    });
  EXPECT_TRUE(faults->has_occurred());
  expect_healed(found);
}

TEST(FitReconnects, APacketIsLost) {
  using enum message_kind;
  for (const auto kind : {contribution, result, gather_contribution})
    expect_healed_packet(kind, {.dropped = true}, transport_kind::tcp);
  expect_healed_packet(contribution, {.dropped = true}, transport_kind::shm);
}

TEST(FitReconnects, APacketIsCorrupt) {
  using enum message_kind;
  for (const auto kind : {contribution, result, gather_contribution})
    expect_healed_packet(kind, {.corrupted = true}, transport_kind::tcp);
}

TEST(FitReconnects, SeveralCutsFollowEachOther) {
  proxied_workers three{3};
  const auto found =
    fit_with_faults(three, [&](auto&, std::uint32_t at, auto step) {
      auto& chief = *three.proxies[0];
      if (at == 0 && step == 2)
        chief.cut("control", "worker 1");
      if (at == 0 && step == 6)
        chief.cut("reconnect", "worker 1");
      if (at == 2 && step == 9) {
        chief.cut("control", "worker 2");
        three.proxies[1]->cut("peer");
        three.proxies[1]->cut("results");
      }
      if (at == 1 && step == 20)
        three.proxies[1]->flip("contributions");
    });
  EXPECT_EQ(three.proxies[0]->cuts(), 3);
  EXPECT_EQ(three.proxies[1]->cuts(), 2);
  EXPECT_EQ(three.proxies[1]->flips(), 1);
  expect_healed(found);
}

TEST(FitReconnects, ACutDuringALossExcludesNoOther) {
  proxied_workers four{4};
  std::vector<std::exception_ptr> thrown;
  const auto found = fit_with_faults(
    four,
    [&](auto& on, std::uint32_t at, auto step) {
      if (step != 5)
        return;
      if (at == 3)
        cut_off(on);
      if (at == 1)
        four.proxies[0]->cut("control", "worker 1");
      if (at == 2)
        four.proxies[1]->cut("peer", "worker 2");
    },
    &thrown);
  EXPECT_EQ(four.proxies[0]->cuts(), 1);
  EXPECT_EQ(four.proxies[1]->cuts(), 1);
  EXPECT_NE(exception_text(thrown[3]), "");
  for (const std::size_t w : {0u, 1u, 2u}) {
    EXPECT_EQ(exception_text(thrown[w]), "");
    expect_undisturbed(found[w], 4);
    EXPECT_EQ(found[w].view.members.size(), 3u);
  }
}

/// The call throws, because its state is not known. The next fit goes on.
TEST(FitReconnects, ALoopOfOnesOwnGoesOnAndAllStayMembers) {
  proxied_workers three{3};
  std::vector<reconnect_outcome> found(3);
  const auto thrown = three.run([&](const strategy& on, std::uint32_t w) {
    const auto scope = on.scope();
    auto it = small_model();
    for (int i = 0; i < 60; ++i) {
      const auto sums = on.run([&](replica_context& self) {
        return self.all_reduce(sum, tensor::full({4}, float(i)));
      });
      EXPECT_EQ(sums.values().front().data<float>()[0], float(3 * i));
      if (w == 0 && i == 20)
        three.proxies[0]->cut("control", "worker 1");
    }
    found[w].past = it.fit(uneven_batches(), two_epochs());
    found[w].steps = steps_to(it.steps());
    found[w].weights = it.weights_sha256();
    found[w].view = on.state()->cluster->current_view();
  });
  expect_nothing_thrown(thrown);
  EXPECT_EQ(three.proxies[0]->cuts(), 1);
  expect_healed(found);
}

class Exclusion : public scratch_test {};

TEST_F(Exclusion, OfOneOfTwoThatCannotConnectIsInTheFileOfItsEvents) {
  ::setenv("TROUPE_FLIGHT_DIR", folder.c_str(), 1);
  proxied_workers three{3};
  std::vector<std::exception_ptr> thrown;
  const auto found = fit_with_faults(
    three,
    [&](auto&, std::uint32_t at, auto step) {
      if (at != 1 || step != 5)
        return;
      three.proxies[0]->block("reconnect");
      three.proxies[0]->cut("control", "worker 2");
    },
    &thrown);
  ::unsetenv("TROUPE_FLIGHT_DIR");
  EXPECT_EQ(three.proxies[0]->cuts(), 1);
  for (const std::size_t w : {0u, 1u}) {
    EXPECT_EQ(exception_text(thrown[w]), "");
    expect_undisturbed(found[w], 3);
    EXPECT_EQ(found[w].view.members.size(), 2u);
  }
  EXPECT_NE(exception_text(thrown[2]), "");
  std::vector<flight_record> records;
  for (const auto& x : std::filesystem::directory_iterator{folder})
    records.push_back(read_flight_file(x.path()));
  ASSERT_EQ(records.size(), 1u); // of the excluded worker only
  EXPECT_EQ(records[0].identity.task, 2u);
  EXPECT_EQ(records[0].error, exception_text(thrown[2]));
  EXPECT_TRUE(std::ranges::count(records[0].events, flight_event_kind::excluded,
                                 &flight_event::kind))
    << records[0].error;
}

/// What the program of an excluded worker uses, made before its exclusion.
struct excluded_program {
  const strategy& on;
  model& it;
  const distributed_dataset& parts;
  distributed_iterator& part;
  training_loop& loop;
  const per_replica<tensor>& values;
  std::filesystem::path file;
};

struct excluded_call {
  const char* name;
  std::function<void(excluded_program&)> make;
};

const std::vector<excluded_call> calls_that_throw{
  {"fit", [](auto& x) { x.it.fit(uneven_batches()); }},
  {"fit of a distributed dataset", [](auto& x) { x.it.fit(x.parts); }},
  {"evaluate", [](auto& x) { x.it.evaluate(uneven_batches()); }},
  {"predict",
   [](auto& x) { x.it.predict(digits_200().examples(0, 9).inputs); }},
  {"predict of a dataset", [](auto& x) { x.it.predict(uneven_batches()); }},
  {"call of the model",
   [](auto& x) { x.it(digits_200().examples(0, 9).inputs); }},
  {"weights_sha256", [](auto& x) { x.it.weights_sha256(); }},
  {"save", [](auto& x) { x.it.save(x.file); }},
  {"run", [](auto& x) { x.on.run([](replica_context&) {}); }},
  {"reduce", [](auto& x) { x.on.reduce(sum, x.values); }},
  {"reduce over axes", [](auto& x) { x.on.reduce(sum, x.values, {0}); }},
  {"reduce of a number",
   [](auto& x) {
     x.on.reduce(sum, x.on.values_from([](std::uint32_t) { return 1.f; }));
   }},
  {"reduce of an equal value",
   [](auto& x) { x.on.reduce(mean, tensor::full({2}, 1)); }},
  {"gather", [](auto& x) { x.on.gather(x.values, 0); }},
  {"distribute", [](auto& x) { x.on.distribute(uneven_batches()); }},
  {"begin of a distributed dataset", [](auto& x) { x.parts.begin(); }},
  {"next batch of a distributed dataset", [](auto& x) { ++x.part; }},
  {"loop", [](auto& x) { x.on.loop("next", x.parts); }},
  {"begin of a loop", [](auto& x) { x.loop.begin(); }},
};

TEST_F(Exclusion, EveryCallThrowsAndChangesNothing) {
  proxied_workers three{3};
  std::size_t calls = 0;
  const auto thrown = three.run([&](const strategy& on, std::uint32_t w) {
    const auto scope = on.scope();
    auto it = small_model();
    const auto parts = on.distribute(uneven_batches());
    auto part = parts.begin();
    auto loop = on.loop("train", parts);
    const auto values =
      on.values_from([](std::uint32_t) { return tensor::full({2}, 1); });
    auto how = two_epochs();
    how.callbacks.push_back({.on_step = [&](const step_record& x) {
      if (w != 1 || x.step != 5)
        return;
      three.proxies[0]->block("reconnect");
      three.proxies[0]->cut("control", "worker 2");
    }});
    if (w != 2) {
      it.fit(uneven_batches(), how);
      return;
    }
    EXPECT_THROW(it.fit(uneven_batches(), how), job_error);
    const auto& group = *on.state()->group;
    ASSERT_TRUE(group.is_excluded() && !group.has_left())
      << "the fault did not occur";
    const auto weights = it.variables().front().value().clone();
    excluded_program program{on, it, parts, part, loop, values, folder / "it"};
    for (const auto& call : calls_that_throw) {
      EXPECT_THROW(call.make(program), job_error) << call.name;
      ++calls;
    }
    EXPECT_EQ(it.save_after_failure(folder / "own"), std::filesystem::path{});
    EXPECT_TRUE(same_bits(it.variables().front().value(), weights));
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  });
  expect_nothing_thrown(thrown);
  EXPECT_EQ(three.proxies[0]->cuts(), 1);
  EXPECT_EQ(calls, calls_that_throw.size());
}

} // namespace
