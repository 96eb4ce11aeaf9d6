// Fuzzes strategies/membership: messages between the processes of a job, in any
// order.
#include "troupe/actors/core/failure_text.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/strategies/membership/candidate.hpp"
#include "troupe/strategies/membership/leader.hpp"
#include "troupe/strategies/membership/participant.hpp"
#include "troupe/strategies/membership/run_barrier.hpp"
#include "troupe/strategies/membership/view_change.hpp"
#include "troupe/strategies/placement.hpp"
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

// -- membership ---------------------------------------------------------------

std::string text_of(choices& source) {
  const auto x = source.take(source.below(64));
  return {reinterpret_cast<const char*>(x.data()), x.size()};
}

membership::view view_of(choices& source) {
  membership::view x{source.below(4), {}};
  for (auto n = source.below(5); n > 0; --n) {
    membership::member one{std::uint32_t(source.below(4)),
                           1 + source.below(4),
                           "host",
                           source.number<std::uint16_t>(),
                           {}};
    for (auto ids = source.below(3); ids > 0; --ids)
      one.replicas.push_back(std::uint32_t(source.below(4)));
    x.members.push_back(std::move(one));
  }
  return x;
}

/// Returns the view that a leader with incarnation 1 sends to a participant of
/// task 1 with incarnation 2.
membership::view right_view(std::uint64_t id) {
  return {
    id,
    {{0, 1, "host", 1, {0}}, {1, 2, "host", 1, {1}}, {2, 3, "host", 1, {}}}};
}

/// Returns a membership message as it arrives: mostly valid. None: the bytes
/// that arrived were no message.
std::optional<membership::message> message_of(choices& source) {
  membership::message x{membership::message_kind(source.below(10)), {}, {}};
  switch (source.below(6)) {
    case 0:
      x.text = text_of(source);
      break;
    case 1:
      x.view = view_of(source);
      break;
    case 2:
    case 3:
      x.view = right_view(1 + source.below(3));
      break;
    default:
      x.view.view_id = source.below(4);
  }
  auto payload = net::encode(x.kind, x.text, x.view);
  if (source.below(8) == 7)
    payload[source.below(payload.size())] ^=
      std::byte(source.number<std::uint8_t>());
  membership::message out;
  if (net::decode(payload, out.kind, out.text, out.view))
    return {};
  return out;
}

membership::join_request request_of(choices& source) {
  membership::join_request x{std::uint32_t(source.below(tasks + 1)),
                             1 + source.below(4),
                             "host",
                             source.number<std::uint16_t>(),
                             std::uint32_t(source.below(3)),
                             {"1", "avx2", 2, 3, ""}};
  switch (source.below(12)) {
    case 7:
      x.task = source.number<std::uint32_t>();
      break;
    case 8:
      x.config.threads = source.number<std::uint32_t>();
      break;
    case 9:
      x.replicas = source.number<std::uint32_t>();
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

/// Checks the leader against processes that send anything.
void check_leader(choices& source) {
  const membership::join_request self{0, 1, "leader",
                                      1, 1, {"1", "avx2", 2, 3, ""}};
  membership::leader machine{tasks, self};
  machine.begin();
  std::array<std::optional<std::uint64_t>, tasks> joined_incarnations{
    self.incarnation};
  std::array<bool, tasks> ready{};
  bool began = false, failed = false;
  for (int turns = 0; source.any() && turns < 200; ++turns) {
    const auto before = machine.view();
    const auto task = std::uint32_t(source.below(tasks + 1));
    const auto incarnation = 1 + source.below(4);
    const bool is_member =
      task > 0 && task < tasks && joined_incarnations[task] == incarnation;
    membership::reaction out;
    switch (source.below(8)) {
      case 0:
      case 1: {
        const auto x = request_of(source);
        out = machine.on(x);
        require(!out.empty(), "a request is answered");
        if (std::holds_alternative<membership::rejected>(out[0])) {
          require(out.size() == 1, "a rejection changes nothing");
          break;
        }
        require(
          x.task < tasks && !joined_incarnations[x.task] && before.view_id == 0
            && !failed && x.replicas <= max_replicas
            && encode(x.config) == encode(self.config),
          "only a process with a free task and equal options is admitted");
        joined_incarnations[x.task] = x.incarnation;
        ready[x.task] = false;
        break;
      }
      case 2:
      case 3:
      case 4: {
        const auto x = message_of(source);
        if (!x)
          break;
        out = machine.on(task, incarnation, *x);
        require(is_member || out.empty(), "only members are heard");
        if (is_member && x->kind == membership::message_kind::ready)
          ready[task] =
            ready[task]
            || (before.view_id > 0 && x->view.view_id == before.view_id);
        if (is_member && x->kind == membership::message_kind::leave)
          joined_incarnations[task].reset();
        break;
      }
      case 5:
        out = machine.on_lost(task, incarnation, ec::peer_lost, "gone");
        require(is_member || out.empty(), "only members can be lost");
        if (is_member)
          joined_incarnations[task].reset();
        break;
      case 6:
        out = machine.on_ready();
        ready[0] = true;
        break;
      default:
        if (source.below(8) == 7)
          out = source.flip()   ? machine.on_timeout()
                : source.flip() ? machine.leave()
                                : machine.leave_running_job();
    }
    require(out.size() <= 2 * tasks + 3, "an event has few effects");
    for (const auto& x : out) {
      if (const auto* y = std::get_if<membership::send>(&x))
        require(y->task > 0 && y->task < tasks, "a receiver exists");
      if (std::holds_alternative<membership::failed>(x)) {
        require(!failed && !began, "a job fails once, before it begins");
        failed = true;
      }
      if (std::holds_alternative<membership::started>(x)) {
        require(!failed && !began, "a job begins once");
        require(std::ranges::all_of(ready, [](bool b) { return b; }),
                "a job begins when all are ready");
        began = true;
      }
    }
    const auto& now = machine.view();
    require(now.view_id == before.view_id || now.view_id == before.view_id + 1,
            "view ids count");
    if (now.view_id > 1)
      for (const auto& x : now.members)
        require(before.contains(x.task, x.incarnation), "no process is added");
    for (std::uint32_t t = 0; now.view_id > 0 && !failed && t < tasks; ++t)
      require(!joined_incarnations[t]
                || now.contains(t, *joined_incarnations[t]),
              "the view has all that are there");
  }
}

/// Checks a participant against a leader, and others, that send anything.
void check_participant(choices& source) {
  membership::participant machine{
    tasks, {1, 2, "host", 1, 1, {"1", "avx2", 2, 3, ""}}};
  bool began = false, failed = false, opened = false;
  if (source.below(8) != 7)
    machine.on_connected(1);
  for (int turns = 0; source.any() && turns < 200; ++turns) {
    const auto before = machine.view();
    const auto what = source.below(16);
    membership::reaction out;
    if (what < 12) {
      const auto from = what < 10 ? 1 : 1 + source.below(4);
      const auto x = message_of(source);
      if (!x)
        continue;
      out = machine.on(from, *x);
      require(from == 1 || out.empty()
                || x->kind == membership::message_kind::leave,
              "only the leader is heard, and members that leave");
      for (const auto& y : out)
        if (std::holds_alternative<membership::started>(y))
          require(opened && x->kind == membership::message_kind::start
                    && x->view.view_id == before.view_id,
                  "the job begins by the leader's word, in the same view");
    } else if (what == 12) {
      out = machine.on_ready();
      opened = opened || !out.empty();
    } else if (what == 13) {
      out = machine.on_lost(1 + source.below(2), ec::peer_lost, "gone");
    } else if (what == 14) {
      out = machine.on_timeout();
    } else {
      out = machine.leave();
    }
    require(out.size() <= 3, "an event has few effects");
    for (const auto& x : out) {
      require(!std::holds_alternative<membership::failed>(x)
                || (!failed && !began),
              "a start fails once");
      failed = failed || std::holds_alternative<membership::failed>(x);
      require(!std::holds_alternative<membership::started>(x)
                || (!failed && !began),
              "a job begins once");
      began = began || std::holds_alternative<membership::started>(x);
    }
    const auto& now = machine.view();
    require(now.view_id >= before.view_id, "view ids count");
    if (now.view_id > 0)
      require(now.contains(1, 2) && now.contains(0, 1),
              "a view has this process and its leader");
    if (before.view_id > 0)
      for (const auto& x : now.members)
        require(before.contains(x.task, x.incarnation), "no process is added");
  }
}

/// Checks a candidate against processes that send anything.
void check_candidate(choices& source) {
  membership::candidate machine{tasks,
                                {1, 9, "host", 1, 1, {"1", "avx2", 2, 3, ""}}};
  std::array<std::optional<std::uint64_t>, tasks> connected{};
  bool began = false, failed = false, left = false;
  for (int turns = 0; source.any() && turns < 200; ++turns) {
    const auto before = machine.view().view_id;
    const auto task = 2 * std::uint32_t(source.below(2));
    membership::reaction out;
    switch (source.below(16)) {
      case 8:
        connected[task] = 1 + source.below(4);
        machine.on_connected(task, *connected[task]);
        break;
      case 9:
        connected[task].reset();
        machine.on_lost(task);
        break;
      case 10:
        out = machine.ask();
        break;
      case 11:
        out = machine.repeat();
        break;
      case 12:
        out = machine.on_timeout("no process answers");
        break;
      case 13:
        out = machine.leave();
        require(!left || out.empty(), "a candidate leaves once");
        left = true;
        break;
      default: {
        const auto x = message_of(source);
        if (!x)
          break;
        out = machine.on(task, *x);
        require(connected[task] || out.empty(),
                "only connected processes are heard");
      }
    }
    require(out.size() <= tasks + 1, "an event has few effects");
    for (const auto& x : out) {
      if (const auto* y = std::get_if<membership::send>(&x))
        require(y->task < tasks && connected[y->task], "a receiver exists");
      if (std::holds_alternative<membership::started>(x)) {
        require(!began && !failed, "a candidate knows the job once");
        began = true;
        for (const auto& y : machine.view().members)
          require(y.task == 1 || connected[y.task] == y.incarnation,
                  "it is connected to all members");
      }
      if (std::holds_alternative<membership::failed>(x)) {
        require(!began && !failed, "a candidate fails once");
        failed = true;
      }
    }
    require(!machine.is_asking() || began, "it asks when it knows the job");
    require(machine.view().view_id >= before, "view ids count");
    std::vector<std::uint32_t> ids;
    for (const auto& x : machine.view().members) {
      require(x.task < tasks, "a member has a task of the job");
      ids.insert(ids.end(), x.replicas.begin(), x.replicas.end());
    }
    std::ranges::sort(ids);
    for (std::uint32_t i = 0; i < ids.size(); ++i)
      require(ids[i] == i, "a view places each replica once");
  }
}

// -- view changes -------------------------------------------------------------

/// Returns a view whose members can host replicas.
membership::view hosting(membership::view x) {
  for (auto& one : x.members)
    one.capacity = 1;
  return x;
}

view_change::message view_message_of(choices& source) {
  const auto number = [&] {
    return view_change::ballot{
      source.below(8) == 7 ? source.number<std::uint64_t>() : source.below(4),
      std::uint32_t(source.below(4))};
  };
  view_change::message x;
  x.kind = view_change::message_kind(source.below(8));
  x.view_id = source.below(4);
  x.number = number();
  if (source.flip())
    x.position.push_back({source.below(2), source.below(2)});
  for (auto n = source.below(3); n > 0; --n) {
    auto next = source.flip() ? view_of(source) : right_view(source.below(5));
    if (source.flip() && !next.members.empty())
      next.members.pop_back();
    x.proposals.push_back({source.flip() ? x.number : number(),
                           {hosting(next),
                            {source.below(2), source.below(2)},
                            std::uint32_t(source.below(4))}});
  }
  for (auto* list : {&x.known.unreachable, &x.known.dead, &x.known.leaving})
    for (auto n = source.below(3); n > 0; --n)
      list->push_back(1 + source.below(4));
  if (source.below(4) == 3)
    x.known.joining = hosting(view_of(source)).members;
  return x;
}

/// Checks a member of a view against other processes that send anything.
void check_view_change(choices& source) {
  constexpr std::uint64_t self = 2;
  view_change::state_machine machine{hosting(right_view(1)), self};
  bool stopping = false;
  for (int turns = 0; source.any() && turns < 200; ++turns) {
    const auto before = machine.current();
    const bool was_removed = machine.is_removed();
    view_change::reaction out;
    switch (source.below(16)) {
      case 8:
        out = machine.on_unreachable(1 + source.below(4));
        break;
      case 9:
        out = machine.on_reachable(1 + source.below(4));
        break;
      case 10:
        out = machine.on_dead(1 + 2 * source.below(2)); // not this process
        break;
      case 11:
        out = machine.on_timeout();
        break;
      case 12:
        out = source.flip() ? machine.leave()
                            : machine.on_leaving(1 + source.below(4));
        break;
      case 13:
        out = machine.on_survivors({{1, self}, {0, 1 + source.below(4)}});
        break;
      case 14:
      case 15:
        if (stopping)
          out = machine.on_stopped(
            view_change::job_position{source.below(2), source.below(2)});
        stopping = false;
        break;
      default: {
        auto payload = net::encode(view_message_of(source));
        const bool damaged = source.below(8) == 7;
        if (damaged)
          payload[source.below(payload.size())] ^=
            std::byte(source.number<std::uint8_t>());
        view_change::message received;
        const bool failed = net::decode(payload, received).has_value();
        require(damaged || (!failed && net::encode(received) == payload),
                "a message is read as it was written");
        if (!failed)
          out = machine.on(
            {std::uint32_t(source.below(4)), 1 + source.below(4)}, received);
      }
    }
    require(out.size() <= 4 * tasks + 8, "an event has few effects");
    for (const auto& x : out)
      stopping |= std::holds_alternative<view_change::stop>(x);
    const auto& now = machine.current();
    require(now.view_id >= before.view_id, "view ids count");
    require(!was_removed || now == before, "a removed process stays removed");
    require(machine.is_removed() || now.contains(1, self),
            "a view has this process unless it was removed");
    std::vector<std::uint32_t> ids;
    for (const auto& x : now.members)
      ids.insert(ids.end(), x.replicas.begin(), x.replicas.end());
    std::ranges::sort(ids);
    require(ids == std::vector<std::uint32_t>{0, 1},
            "a view places each replica once");
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
  const auto what = source.below(5);
  what == 0   ? check_participant(source)
  : what == 1 ? check_leader(source)
  : what == 2 ? check_run_barrier(source)
  : what == 3 ? check_view_change(source)
              : check_candidate(source);
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
    joined({3, 10, 0, 14, 1, 1, 0, 4, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 3}),
    joined({3, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 14, 1, 1, 0, 3, 1}),
    joined({4, 8, 0, 0, 8, 1, 2, 0, 8, 2, 0, 0, 1, 0, 8, 2, 0, 10, 11, 9, 0}),
  };
}

} // namespace troupe::fuzz
