// actors/membership, strategies/membership: messages between members of a job
// and its leader, in any order.
#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/strategies/membership/run_barrier.hpp"
#include "troupe/tests/fuzz/fuzz.hpp"

#include <optional>

namespace troupe::fuzz {

namespace {

using net::encode;

constexpr std::uint32_t tasks = 3;
const std::vector<std::string> who{"chief 0", "worker 1", "worker 2"};

void check_text(const std::string& why) {
  require(!why.empty() && why.size() < 400, "a reason is a short sentence");
  for (const unsigned char c : why)
    require(c >= ' ' && c != 127, "a reason is one line of text");
}

// -- notices ------------------------------------------------------------------

/// Counters of all connections: a message must have an effect on its own
/// connection only.
struct tally {
  std::size_t posted = 0, done = 0, closed = 0;
};

/// A hand-written connection with one channel.
struct wire final : net::connection, net::link {
  explicit wire(tally& in) : all{in} {}

  std::shared_ptr<net::link> open(std::uint32_t) override {
    return std::shared_ptr<net::link>{std::shared_ptr<void>{}, this};
  }
  const net::hello& peer() const override { return self; }
  std::chrono::milliseconds silence() const override { return {}; }
  void on_end(std::function<void(net::ending, const std::string&)>) override {}
  void close(const std::string& why) override {
    check_text(why);
    all.closed += !closed;
    closed = true;
  }
  void listen(std::shared_ptr<net::link_listener> to) override { ear = to; }
  bool post(net::frame&& x) override {
    notice said;
    require(!net::decode(x.payload, said.what, said.text, said.all),
            "the message can be decoded");
    ++all.posted;
    return true;
  }
  void consumed(net::priority) override { ++all.done; }
  const net::frame_limits& limits() const override { return most; }
  std::size_t credits(net::priority) const override { return 256; }

  net::hello self;
  net::frame_limits most;
  std::shared_ptr<net::link_listener> ear;
  tally& all;
  bool closed = false;
};

roster::table table_of(choices& from) {
  roster::table x{from.below(3), {}};
  for (auto n = from.below(5); n > 0; --n)
    x.members.push_back(
      {from.number<std::uint64_t>(), "host", from.number<std::uint16_t>()});
  return x;
}

/// Payload of a notice, mostly valid.
bytes notice_of(choices& from) {
  const auto some = [&] {
    const auto x = from.take(from.below(64));
    return std::string{reinterpret_cast<const char*>(x.data()), x.size()};
  };
  const auto kind = from.below(8);
  if (kind == 7) {
    const auto x = from.take(from.below(255));
    return {x.begin(), x.end()};
  }
  const auto what = word(from.below(8));
  auto x = encode(what, kind == 1 ? some() : std::string{},
                  kind == 2 ? table_of(from) : roster::table{});
  if (kind == 6)
    x[from.below(x.size())] ^= std::byte(from.number<std::uint8_t>());
  return x;
}

class hall_of {
public:
  explicit hall_of(bool leads) : hall_{std::make_shared<hall>(tasks)} {
    if (leads)
      hall_->who.emplace(who, roster::hello{0, 1, "host", 1, {}});
  }
  ~hall_of() {
    for (auto& x : wires_) // They refer to each other.
      x->ear.reset();
  }

  void act(choices& from) {
    const auto task = std::uint32_t(from.below(tasks));
    const auto what = from.below(8);
    if (what == 7 || wires_.empty())
      return come(task);
    auto& one = *wires_[from.below(wires_.size())];
    if (what == 6)
      one.ear->ended(net::ending(from.below(3)), "it is gone");
    else
      hear(one, notice_of(from));
  }

private:
  void come(std::uint32_t task) {
    if (wires_.size() == 8)
      return;
    wires_.push_back(std::make_shared<wire>(all_));
    at_.push_back(task);
    settle(hall_, task, wires_.size(), wires_.back());
  }

  void hear(wire& one, bytes said) {
    notice read;
    const bool fault =
      net::decode(said, read.what, read.text, read.all).has_value();
    const auto i =
      std::size_t(std::ranges::find(wires_, &one, &std::shared_ptr<wire>::get)
                  - wires_.begin());
    auto& seat = hall_->seats[at_[i]];
    const bool seated = seat.incarnation == i + 1;
    const auto before = all_;
    const bool over = seat.end.has_value(), closed = one.closed;
    const auto size = said.size();
    const auto memory = memory_of(
      [&] { one.ear->heard(net::frame{.payload = std::move(said)}); });
    require(memory <= 16 * size + 2048, "memory follows the bytes that came");
    require(all_.done == before.done + seated, "a frame is processed once");
    require(all_.posted <= before.posted + (seated && !fault && !over),
            "a message has at most one reply");
    require(one.closed == (closed || (seated && fault))
              && all_.closed == before.closed + (one.closed && !closed),
            "only a connection with an undecodable message is closed");
    require(!hall_->who || !hall_->table,
            "a leader accepts no membership from others");
    if (seated && !fault && read.what == word::table && !hall_->who)
      require(encode(hall_->table->epoch, hall_->table->members)
                == encode(read.all.epoch, read.all.members),
              "a membership arrives unchanged");
  }

  tally all_;
  std::shared_ptr<hall> hall_;
  std::vector<std::shared_ptr<wire>>
    wires_; ///< In order of incarnation, from 1.
  std::vector<std::uint32_t> at_;
};

void check_hall(choices& from) {
  hall_of x{from.flip()};
  for (int turns = 0; from.any() && turns < 100; ++turns)
    x.act(from);
}

// -- hellos -------------------------------------------------------------------
roster::hello hello_of(choices& from) {
  roster::hello x{std::uint32_t(from.below(tasks + 1)),
                  from.below(4),
                  "host",
                  from.number<std::uint16_t>(),
                  {"1", "avx2", 2, 1, ""}};
  switch (from.below(12)) {
    case 7:
      x.task = from.number<std::uint32_t>();
      break;
    case 8:
      x.on.threads = from.number<std::uint32_t>();
      break;
    case 10:
      x.on.version.assign(from.below(64), 'v');
      break;
    case 11:
      x.on.options.assign(from.number<std::uint16_t>(), 'o');
      break;
    default:
      break;
  }
  return x;
}

void check_roster(choices& from) {
  const roster::hello leader{0, 1, "leader", 1, {"1", "avx2", 2, 1, ""}};
  roster::machine machine{who, leader};
  std::array<std::optional<std::uint64_t>, tasks> in{leader.incarnation};
  bool told = false;
  for (int turns = 0; from.any() && turns < 200; ++turns) {
    if (from.below(4) == 3) {
      const auto task = std::uint32_t(from.below(tasks + 1));
      const auto incarnation = from.below(4);
      machine.on_lost(task, incarnation);
      if (!told && task > 0 && task < tasks && in[task] == incarnation)
        in[task].reset();
      continue;
    }
    const auto x = hello_of(from);
    const auto like = encode(x.on) == encode(leader.on);
    const bool may = !told && like && x.task < tasks && !in[x.task];
    const auto answer = machine.on(x);
    const auto* no = std::get_if<roster::refused>(&answer);
    require(may == !no,
            "only a process with a free task and equal options is admitted");
    if (no)
      require(!no->why.empty()
                && no->why.size()
                     < 300 + x.on.version.size() + x.on.options.size(),
              "a refusal is a sentence");
    else
      in[x.task] = x.incarnation;
    const bool all = std::ranges::all_of(in, [](auto& i) { return bool(i); });
    require(machine.complete() == all,
            "the membership is complete if all joined");
    require(machine.missing().empty() == all, "missing processes are named");
    if (!all || told || from.flip())
      continue;
    told = true;
    const auto table = machine.members();
    for (std::uint32_t i = 0; i < tasks; ++i)
      require(table.members[i].incarnation == in[i],
              "the membership lists the admitted processes");
  }
}

// -- joins --------------------------------------------------------------------

/// Checks the run barrier against the last request of every process.
void check_muster(choices& from) {
  muster::machine machine{who};
  std::array<muster::join, tasks> last{};
  std::uint64_t begun = 0;
  for (int turns = 0; from.any() && turns < 200; ++turns) {
    const auto what = from.below(16);
    muster::reaction out;
    if (what == 15) {
      out = machine.on_lost(std::uint32_t(from.below(tasks)),
                            commit::cause::lost, "gone");
    } else if (what == 14) {
      out = machine.on_late("1 s");
    } else if (what == 13) {
      machine.over();
    } else {
      muster::join x{std::uint32_t(from.below(tasks + (what == 12))),
                     1 + from.below(4), from.below(2), 1 + from.below(2)};
      if (what == 11)
        x.run = from.number<std::uint64_t>();
      if (what == 10)
        x.first = x.steps = ~from.number<std::uint64_t>();
      if (x.process < tasks && x.run > last[x.process].run)
        last[x.process] = x;
      out = machine.on(x);
    }
    require(out.size() <= tasks + 1, "a message has few effects");
    for (const auto& e : out)
      if (const auto* no = std::get_if<muster::refuse>(&e)) {
        require(no->whom < tasks, "a refused process exists");
        check_text(no->why);
      } else if (const auto* yes = std::get_if<muster::begin>(&e)) {
        require(yes->what.run > begun, "a run begins once");
        begun = yes->what.run;
        for (const auto& x : last)
          require(x.run == yes->what.run && x.first == yes->what.first
                    && x.steps == yes->what.steps,
                  "a run begins when all have asked for it");
      } else {
        check_text(std::get<muster::abandon>(e).why);
      }
    require(machine.waiting().has_value() == !machine.absent().empty(),
            "a waiting barrier names the absent processes");
  }
}

} // namespace

void try_one(view input) {
  choices from{input};
  const auto what = from.below(3);
  what == 0   ? check_hall(from)
  : what == 1 ? check_roster(from)
              : check_muster(from);
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
