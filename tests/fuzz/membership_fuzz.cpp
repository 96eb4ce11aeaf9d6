// Fuzzes actors/membership and strategies/membership: messages between the
// processes of a job and its leader, in any order.
#include "troupe/actors/core/failure_text.hpp"
#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/strategies/membership/run_barrier.hpp"
#include "troupe/tests/fuzz/fuzz.hpp"

#include <optional>

namespace troupe::fuzz {

namespace {

using net::encode;

constexpr std::uint32_t tasks = 3;
const std::vector<std::string> task_names{"chief 0", "worker 1", "worker 2"};

void check_text(const std::string& why) {
  require(!why.empty() && why.size() < 400, "a reason is a short sentence");
  for (const unsigned char c : why)
    require(c >= ' ' && c != 127, "a reason is one line of text");
}

void check_report(const failure_report& report) {
  require(is_possible(report, tasks, tasks), "another process accepts it");
  check_text(describe(report, {task_names, placement{{{0}, {1}, {2}}}}));
}

// -- membership messages ------------------------------------------------------

/// Numbers of posted frames, consumed frames and closed connections, over all
/// connections. The target compares them before and after each message, to
/// check that a message affects only the connection on which it arrives.
struct tally {
  std::size_t posted = 0, done = 0, closed = 0;
};

/// A simulated connection with one channel.
struct fake_connection final : net::connection, net::channel {
  explicit fake_connection(tally& in) : counters{in} {}

  std::shared_ptr<net::channel> open(std::uint32_t) override {
    return std::shared_ptr<net::channel>{std::shared_ptr<void>{}, this};
  }
  const net::hello& peer() const override { return self; }
  std::chrono::milliseconds silence() const override { return {}; }
  void on_closed(
    std::function<void(net::close_reason, const std::string&)>) override {}
  void close(const std::string& why) override {
    check_text(why);
    counters.closed += !closed;
    closed = true;
  }
  void set_listener(std::shared_ptr<net::channel_listener> to) override {
    listener = to;
  }
  bool post(net::frame&& x) override {
    membership_message said;
    require(!net::decode(x.payload, said.kind, said.text, said.view),
            "the message can be decoded");
    ++counters.posted;
    return true;
  }
  void consumed(net::priority) override { ++counters.done; }
  const net::frame_limits& limits() const override { return frame_limits_; }
  std::size_t credits(net::priority) const override { return 256; }

  net::hello self;
  net::frame_limits frame_limits_;
  std::shared_ptr<net::channel_listener> listener;
  tally& counters;
  bool closed = false;
};

rendezvous::membership_view table_of(choices& source) {
  rendezvous::membership_view x{source.below(3), {}};
  for (auto n = source.below(5); n > 0; --n)
    x.members.push_back(
      {source.number<std::uint64_t>(), "host", source.number<std::uint16_t>()});
  return x;
}

/// Returns the payload of a membership message, which is mostly valid.
bytes notice_of(choices& source) {
  const auto some_text = [&] {
    const auto x = source.take(source.below(64));
    return std::string{reinterpret_cast<const char*>(x.data()), x.size()};
  };
  const auto kind = source.below(8);
  if (kind == 7) {
    const auto x = source.take(source.below(255));
    return {x.begin(), x.end()};
  }
  const auto what = membership_message_kind(source.below(8));
  auto x = encode(what, kind == 1 ? some_text() : std::string{},
                  kind == 2 ? table_of(source) : rendezvous::membership_view{});
  if (kind == 6)
    x[source.below(x.size())] ^= std::byte(source.number<std::uint8_t>());
  return x;
}

class membership_fixture {
public:
  explicit membership_fixture(bool leads)
    : peers_{std::make_shared<peer_table>(tasks)} {
    if (leads)
      peers_->admission_state.emplace(
        task_names, rendezvous::join_request{0, 1, "host", 1, {}});
  }
  ~membership_fixture() {
    // A connection owns its listener, and the listener owns the connection
    // through the table of peers. Without the reset, neither is destroyed.
    for (auto& x : connections_)
      x->listener.reset();
  }

  void act(choices& source) {
    const auto task = std::uint32_t(source.below(tasks));
    const auto what = source.below(8);
    if (what == 7 || connections_.empty())
      return connect(task);
    auto& one = *connections_[source.below(connections_.size())];
    if (what == 6)
      one.listener->on_closed(net::close_reason(source.below(3)), "it is gone");
    else
      receive(one, notice_of(source));
  }

private:
  void connect(std::uint32_t task) {
    if (connections_.size() == 8)
      return;
    connections_.push_back(std::make_shared<fake_connection>(counters_));
    tasks_.push_back(task);
    attach_peer(peers_, task, connections_.size(), connections_.back());
  }

  void receive(fake_connection& conn, bytes payload) {
    membership_message read;
    const bool fault =
      net::decode(payload, read.kind, read.text, read.view).has_value();
    const auto i =
      std::size_t(std::ranges::find(connections_, &conn,
                                    &std::shared_ptr<fake_connection>::get)
                  - connections_.begin());
    auto& entry = peers_->entries[tasks_[i]];
    const bool active = entry.incarnation == i + 1;
    const auto before = counters_;
    const bool over = entry.closed.has_value(), closed = conn.closed;
    const auto size = payload.size();
    const auto memory = memory_of([&] {
      conn.listener->on_frame(net::frame{.payload = std::move(payload)});
    });
    require(memory <= 16 * size + 2048, "memory follows the bytes that came");
    require(counters_.done == before.done + active,
            "a frame is processed once");
    require(counters_.posted <= before.posted + (active && !fault && !over),
            "a message has at most one reply");
    require(conn.closed == (closed || (active && fault))
              && counters_.closed == before.closed + (conn.closed && !closed),
            "only a connection with an undecodable message is closed");
    require(!peers_->admission_state || !peers_->view,
            "a leader accepts no membership from others");
    if (active && !fault && read.kind == membership_message_kind::view
        && !peers_->admission_state)
      require(encode(peers_->view->view_id, peers_->view->members)
                == encode(read.view.view_id, read.view.members),
              "a membership arrives unchanged");
  }

  tally counters_;
  std::shared_ptr<peer_table> peers_;
  /// The process at the other end of connection i has incarnation i + 1.
  std::vector<std::shared_ptr<fake_connection>> connections_;
  std::vector<std::uint32_t> tasks_;
};

void check_peers(choices& source) {
  membership_fixture x{source.flip()};
  for (int turns = 0; source.any() && turns < 100; ++turns)
    x.act(source);
}

// -- hellos -------------------------------------------------------------------
rendezvous::join_request hello_of(choices& source) {
  rendezvous::join_request x{std::uint32_t(source.below(tasks + 1)),
                             source.below(4),
                             "host",
                             source.number<std::uint16_t>(),
                             {"1", "avx2", 2, 1, ""}};
  switch (source.below(12)) {
    case 7:
      x.task = source.number<std::uint32_t>();
      break;
    case 8:
      x.config.threads = source.number<std::uint32_t>();
      break;
    case 10:
      x.config.version.assign(source.below(64), 'v');
      break;
    case 11:
      x.config.options.assign(source.number<std::uint16_t>(), 'o');
      break;
    default:
      break;
  }
  return x;
}

void check_rendezvous(choices& source) {
  const rendezvous::join_request leader{
    0, 1, "leader", 1, {"1", "avx2", 2, 1, ""}};
  rendezvous::state_machine machine{task_names, leader};
  std::array<std::optional<std::uint64_t>, tasks> joined_incarnations{
    leader.incarnation};
  bool published = false;
  for (int turns = 0; source.any() && turns < 200; ++turns) {
    if (source.below(4) == 3) {
      const auto task = std::uint32_t(source.below(tasks + 1));
      const auto incarnation = source.below(4);
      machine.on_lost(task, incarnation);
      if (!published && task > 0 && task < tasks
          && joined_incarnations[task] == incarnation)
        joined_incarnations[task].reset();
      continue;
    }
    const auto x = hello_of(source);
    const auto like = encode(x.config) == encode(leader.config);
    const bool may =
      !published && like && x.task < tasks && !joined_incarnations[x.task];
    const auto answer = machine.on(x);
    const auto* no = std::get_if<rendezvous::rejected>(&answer);
    require(may == !no,
            "only a process with a free task and equal options is admitted");
    if (no)
      require(!no->reason.empty()
                && no->reason.size()
                     < 300 + x.config.version.size() + x.config.options.size(),
              "a refusal is a sentence");
    else
      joined_incarnations[x.task] = x.incarnation;
    const bool all =
      std::ranges::all_of(joined_incarnations, [](auto& i) { return bool(i); });
    require(machine.complete() == all,
            "the membership is complete if all joined");
    require(machine.missing().empty() == all, "missing processes are named");
    if (!all || published || source.flip())
      continue;
    published = true;
    const auto table = machine.close();
    for (std::uint32_t i = 0; i < tasks; ++i)
      require(table.members[i].incarnation == joined_incarnations[i],
              "the membership lists the admitted processes");
  }
}

// -- joins --------------------------------------------------------------------

/// Checks that the run barrier starts a run only if the last requests of all
/// processes are equal.
void check_run_barrier(choices& source) {
  run_barrier::state_machine machine{tasks};
  std::array<run_barrier::join, tasks> last{};
  std::uint64_t begun = 0;
  for (int turns = 0; source.any() && turns < 200; ++turns) {
    const auto action = source.below(16);
    run_barrier::reaction out;
    if (action == 15) {
      out = machine.on_lost(std::uint32_t(source.below(tasks)), ec::peer_lost,
                            "gone");
    } else if (action == 14) {
      out = machine.on_timeout(1000);
    } else if (action == 13) {
      machine.finished();
    } else {
      run_barrier::join request{
        std::uint32_t(source.below(tasks + (action == 12))),
        1 + source.below(4), source.below(2), 1 + source.below(2)};
      if (action == 11)
        request.run = source.number<std::uint64_t>();
      if (action == 10)
        request.first = request.steps = ~source.number<std::uint64_t>();
      if (request.process < tasks && request.run > last[request.process].run)
        last[request.process] = request;
      out = machine.on(request);
    }
    require(out.size() <= tasks + 1, "a message has few effects");
    for (const auto& e : out)
      if (const auto* no = std::get_if<run_barrier::reject>(&e)) {
        require(no->process < tasks, "a refused process exists");
        check_report(no->report);
      } else if (const auto* yes = std::get_if<run_barrier::start>(&e)) {
        require(yes->request.run > begun, "a run begins once");
        begun = yes->request.run;
        for (const auto& x : last)
          require(x.run == yes->request.run && x.first == yes->request.first
                    && x.steps == yes->request.steps,
                  "a run begins when all have asked for it");
      } else {
        check_report(std::get<run_barrier::abort>(e).report);
      }
    require(machine.waiting().has_value() == !machine.missing().empty(),
            "a waiting barrier names the absent processes");
  }
}

} // namespace

void try_one(view input) {
  choices source{input};
  const auto what = source.below(3);
  what == 0   ? check_peers(source)
  : what == 1 ? check_rendezvous(source)
              : check_run_barrier(source);
}

std::vector<bytes> seeds() {
  return {
    joined({0, 0, 1, 7, 2, 7, 1, 0, 0, 0, 0, 1, 2, 0, 1, 4, 1, 1, 0, 0, 6}),
    joined({0, 1, 1, 7, 2, 7, 1, 0, 0, 2, 0, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9}),
    joined({0, 0, 0, 7, 0, 0, 0, 7, 9, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 6, 1}),
    joined({0, 0, 1, 7, 1, 7, 1, 0, 0, 0, 1}),
    joined({1, 0, 1, 2, 0, 0, 0, 0, 2, 3, 0, 0, 0, 1}),
    joined({1, 0, 1, 2, 0, 0, 8, 5, 0, 0, 0, 3, 1, 2, 0, 2, 3, 0, 0, 10, 9}),
    joined({2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 13}),
    joined({2, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 14, 15, 1, 0, 2, 1, 0, 0}),
  };
}

} // namespace troupe::fuzz
