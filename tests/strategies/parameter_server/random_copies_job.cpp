#include "troupe/tests/strategies/parameter_server/random_copies_job.hpp"

#include "troupe/strategies/parameter_server/table_image.hpp"

#include <algorithm>
#include <ranges>
#include <span>
#include <utility>
#include <variant>

namespace troupe::parameter_server {

namespace {

constexpr std::uint64_t copies_tick_interval = 60;
constexpr std::uint64_t chief_name = 1;

constexpr std::int64_t table_rows = 8;
const shape table_dims{table_rows, 1};
const update_rule rule = sgd{.learning_rate = 0.5f, .momentum = 0.5f};

/// Rows are kept from their third gradient on, and dropped when they are idle.
table_part new_table() {
  return {
    table_dims,
    {0, table_rows},
    {.initial = initializer{"ones"}, .min_touches = 3, .max_idle_changes = 12}};
}

part_change gradient_of(const std::vector<std::int64_t>& rows) {
  const auto count = std::int64_t(rows.size());
  return {.what = part_change::kind::gradient,
          .rows = {table_dims, tensor::of<std::int64_t>({count}, rows),
                   tensor::full({count, 1}, 1)},
          .rule = rule};
}

/// Returns what a command changes. Its number decides on the rows.
part_change change_of(const command_id& id) {
  const auto draw = (id.client * 64 + id.number) * 0x9e37'79b9'7f4a'7c15u >> 32;
  const auto row = [&](unsigned digit) {
    return std::int64_t(draw >> (4 * digit)) % table_rows;
  };
  auto out = gradient_of({row(0), row(1)});
  if (row(2) == 0)
    out.what = part_change::kind::add;
  return out;
}

} // namespace

random_copies_job::random_copies_job(std::uint64_t seed)
  : random_job{seed}, chief_{1, 1} {
  shards_ = 1 + std::uint32_t(below(3));
  copies_ = 1 + std::uint32_t(below(3));
  chief_ = copy_views{shards_, copies_};
  loss_percent_ = chance(50) ? below(20) : 0;
  late_percent_ = chance(50) ? below(10) : 0;
  max_delay_ = 1 + below(40);
  if (chance(30))
    limits_ = {1 + below(10), 5 + below(30), {}};
  performed_.resize(shards_);
  answered_.resize(shards_);
  answers_.resize(shards_);
  for (auto n = 1 + below(copies_ + 2); n > 0; --n)
    add_server();
  for (auto n = 1 + below(4); n > 0; --n) {
    const auto id = next_name_++;
    clients_[id].left = 5 + below(40);
    at(1 + below(40), [this, id] { issue(id); });
  }
}

std::string random_copies_job::run() {
  std::vector<std::uint64_t> names;
  for (const auto& one : servers_)
    names.push_back(one.first);
  react(chief_.start(names));
  at(copies_tick_interval, [this] { tick(); });
  const auto faults = below(9);
  for (std::uint64_t i = 0; i < faults; ++i) {
    run_until(now_ + below(400), [] { return false; });
    inject();
  }
  run_until(now_ + 500, [] { return false; });
  end_faults();
  run_until(now_ + 200'000, [this] { return is_done(); });
  if (!is_done())
    fail("the job does not end");
  if (is_given_up_)
    return problem_;
  run_until(now_ + 20'000, [this] { return is_settled(); });
  check_end();
  return problem_;
}

std::string random_copies_job::state_of(std::uint64_t process) const {
  const auto found = servers_.find(process);
  if (found == servers_.end())
    return process == chief_name ? "chief" : "client";
  if (!found->second.is_alive)
    return "dead server";
  std::string out = found->second.is_lost ? "lost server" : "server";
  const auto views = chief_.views();
  for (std::uint32_t s = 0; s < shards_; ++s) {
    const auto& machine = *found->second.copies[s].machine;
    const auto position = machine.position();
    out += machine.is_primary()    ? ", primary"
           : position.is_in_sync   ? ", in sync"
           : position.sequence > 0 ? ", with a state"
                                   : ", without";
    if (position.view_id != views[s].view_id)
      out += " of an older view";
  }
  return out;
}

void random_copies_job::tick() {
  for (auto& [process, one] : servers_)
    if (one.is_alive)
      for (std::uint32_t s = 0; s < shards_; ++s)
        perform(process, s, one.copies[s].machine->on_timeout());
  for (auto& [id, one] : clients_) {
    if (chance(50))
      learn(id);
    for (const auto& [s, commands] : one.shards)
      for (const auto* all : {&commands.open, &commands.reads})
        for (const auto& [number, open] : *all)
          send(id, s, open.what);
  }
  react(chief_.on_timeout());
  at(copies_tick_interval, [this] { tick(); });
}

// -- the chief ----------------------------------------------------------------

void random_copies_job::add_server() {
  const auto process = next_name_++;
  auto& added = servers_[process];
  for (std::uint32_t s = 0; s < shards_; ++s)
    added.copies.push_back(
      {std::make_unique<shard_copy>(process, training{}, limits_),
       new_table()});
}

void random_copies_job::react(const views_reaction& what) {
  if (!what.lost_shards.empty()) {
    is_given_up_ = true;
    count("shards given up");
    if (!had_double_loss_)
      fail("a shard is given up");
  }
  if (what.views_changed)
    count("view changes");
  for (const auto& [process, one] : servers_) {
    if (one.is_lost)
      continue;
    if (what.views_changed)
      to_server(process, [this, process = process, poll = chief_.poll(),
                          views = chief_.views()](server&) {
        enter(process, views);
        report(process, poll);
      });
    if (what.asks_positions)
      to_server(process, [this, process = process, poll = chief_.poll()](
                           server&) { report(process, poll); });
  }
}

/// A connection of the chief keeps the order.
void random_copies_job::to_server(std::uint64_t to,
                                  std::function<void(server&)> action) {
  auto& next = servers_[to].next_arrival;
  next = std::max(next, now_ + 1 + below(2 * max_delay_)) + 1;
  at(next - now_, [this, to, action] {
    auto& receiver = servers_[to];
    if (receiver.is_alive)
      action(receiver);
  });
}

void random_copies_job::enter(std::uint64_t process,
                              const std::vector<shard_view>& views) {
  for (std::uint32_t s = 0; s < shards_; ++s)
    perform(process, s, servers_[process].copies[s].machine->on_view(views[s]));
}

void random_copies_job::report(std::uint64_t from, std::uint64_t poll) {
  auto& self = servers_[from];
  std::vector<copy_position> positions;
  for (const auto& one : self.copies)
    positions.push_back(one.machine->position());
  self.next_answer =
    std::max(self.next_answer, now_ + 1 + below(2 * max_delay_)) + 1;
  at(self.next_answer - now_, [this, from, poll, positions] {
    if (!servers_[from].is_lost)
      react(chief_.on_positions(from, poll, positions));
  });
}

// -- the copies ---------------------------------------------------------------

void random_copies_job::perform(std::uint64_t process, std::uint32_t s,
                                const shard_reaction& effects) {
  auto& self = servers_[process].copies[s];
  const auto to_copy = [&](std::uint64_t receiver, std::string_view message,
                           auto&& call) {
    deliver(process, receiver, message, [this, receiver, s, call] {
      auto& to = servers_[receiver];
      if (to.is_alive)
        perform(receiver, s, call(to.copies[s]));
    });
  };
  for (const auto& effect : effects)
    std::visit(
      overloaded{
        [&](const apply_command& x) {
          if (std::ranges::count(self.performed, x.command.id) > 0)
            fail("a command takes effect twice");
          self.table.apply(change_of(x.command.id));
          self.performed.push_back(x.command.id);
          self.answers[x.command.id] = self.performed.size();
        },
        [&](const answer_command& x) {
          const auto place = self.answers.at(x.id);
          const auto [first, is_new] = answers_[s].try_emplace(x.id, place);
          if (first->second != place)
            fail("two answers to a command differ");
          if (is_new)
            answered_[s].push_back(x.id);
          else
            count("repeated commands");
          deliver(process, x.id.client, "answer", [this, s, id = x.id] {
            clients_[id.client].shards[s].open.erase(id.number);
          });
        },
        [&](const answer_read& x) {
          deliver(process, x.id.client, "answer",
                  [this, s, id = x.id, read = self.performed] {
                    on_read(id.client, s, id.number, read);
                  });
        },
        [&](const refuse_command& x) {
          if (x.why == command_refusal::not_serving)
            count("commands to others");
        },
        [&](const send_record& x) {
          to_copy(x.backup, "record", [x](copy& to) {
            return to.machine->on(x.record, x.gradient);
          });
        },
        [&](const send_snapshot& x) {
          std::vector<tensor> beside;
          auto image = self.table.save(beside);
          to_copy(x.backup, "snapshot",
                  [x, beside = std::move(beside), image = std::move(image),
                   performed = self.performed,
                   answers = self.answers](copy& to) {
                    auto out = to.machine->on(x.snapshot, x.gradients);
                    if (!out.empty()
                        && std::holds_alternative<install_snapshot>(out[0])) {
                      std::span<const tensor> left{beside};
                      to.table = table_part::restore(new_table(), image, left);
                      to.performed = performed;
                      to.answers = answers;
                    }
                    return out;
                  });
        },
        [&](const drop_state&) {
          self.table = new_table();
          self.performed.clear();
          self.answers.clear();
        },
        [&](const send_stored& x) {
          to_copy(x.primary, "stored",
                  [what = x.stored](copy& to) { return to.machine->on(what); });
        },
        [&](const send_inquire& x) {
          to_copy(x.backup, "inquire", [what = x.inquire](copy& to) {
            return to.machine->on(what);
          });
        },
        [&](const send_in_sync& x) {
          to_copy(x.backup, "in_sync", [what = x.in_sync](copy& to) {
            return to.machine->on(what);
          });
        },
        [&](const protocol_error& x) { fail(x.reason); },
        [](const auto&) {},
      },
      effect);
  if (!self.machine->is_primary())
    return;
  // What a primary has performed stays, in this order.
  auto& all = performed_[s];
  const auto common = std::min(all.size(), self.performed.size());
  if (!begin_alike(all, self.performed))
    fail("two copies perform commands in different orders");
  for (auto i = common; i < self.performed.size(); ++i)
    all.push_back(self.performed[i]);
}

// -- clients ------------------------------------------------------------------

void random_copies_job::issue(std::uint64_t id) {
  auto& self = clients_[id];
  if (self.left == 0)
    return;
  const auto s = std::uint32_t(below(shards_));
  auto& commands = self.shards[s];
  if (commands.open.size() < 4) {
    --self.left;
    command made;
    made.is_read = chance(40);
    auto& open = made.is_read ? commands.reads : commands.open;
    made.id = {id, made.is_read ? commands.next_read++ : commands.next++};
    open[made.id.number] = {made, answered_[s].size()};
    count(made.is_read ? "reads" : "commands");
    send(id, s, made);
  }
  at(1 + below(60), [this, id] { issue(id); });
}

void random_copies_job::send(std::uint64_t id, std::uint32_t s, command what) {
  const auto& self = clients_[id];
  auto to = self.primaries.empty() ? 0 : self.primaries[s];
  if (has_faults_ && chance(15))
    to =
      std::next(servers_.begin(), std::int64_t(below(servers_.size())))->first;
  if (to == 0)
    return;
  if (!what.is_read)
    what.answered_below = self.shards.at(s).open.begin()->first;
  deliver(id, to, "command", [this, to, s, what] {
    auto& receiver = servers_[to];
    if (receiver.is_alive)
      perform(to, s, receiver.copies[s].machine->on(what, {nullptr, 1}));
  });
}

/// A client learns the primaries of now, some time later.
void random_copies_job::learn(std::uint64_t id) {
  deliver(chief_name, id, "views", [this, id, views = chief_.views()] {
    auto& to = clients_[id].primaries;
    to.clear();
    for (const auto& one : views)
      to.push_back(one.primary);
  });
}

void random_copies_job::on_read(std::uint64_t id, std::uint32_t s,
                                std::uint64_t number,
                                const std::vector<command_id>& read) {
  auto& open = clients_[id].shards[s].reads;
  const auto found = open.find(number);
  if (found == open.end())
    return;
  for (std::size_t i = 0; i < found->second.answered_before; ++i)
    if (std::ranges::count(read, answered_[s][i]) == 0)
      fail("a read lacks a command that was answered before");
  open.erase(found);
}

// -- faults -------------------------------------------------------------------

/// True if each shard has another copy that can become the primary.
bool random_copies_job::can_spare(std::uint64_t process) const {
  const auto views = chief_.views();
  for (std::uint32_t s = 0; s < shards_; ++s) {
    const auto is_other = [&](const auto& one) {
      const auto at = one.second.copies[s].machine->position();
      return one.first != process && one.second.is_alive && !one.second.is_lost
             && at.is_in_sync && at.view_id == views[s].view_id
             && at.term == views[s].term;
    };
    if (std::ranges::none_of(servers_, is_other))
      return false;
  }
  return true;
}

void random_copies_job::inject() {
  const auto which = below(100);
  if (which < 30) {
    add_server();
    count("servers joined");
    return react(chief_.on_server(servers_.rbegin()->first));
  }
  if (which < 45) {
    std::vector<std::uint64_t> processes;
    for (const auto& [process, one] : servers_)
      if (one.is_alive)
        processes.push_back(process);
    return cut_links(processes);
  }
  const auto process =
    std::next(servers_.begin(), std::int64_t(below(servers_.size())))->first;
  auto& one = servers_[process];
  if (!one.is_alive || one.is_lost || !can_spare(process))
    return;
  const auto views = chief_.views();
  const bool is_primary = std::ranges::any_of(
    views, [&](const shard_view& x) { return x.primary == process; });
  const bool has_died = chance(60);
  meet(has_died     ? is_primary ? "primaries died" : "others died"
       : is_primary ? "primaries lost for the chief"
                    : "others lost for the chief",
       process);
  one.is_alive = !has_died;
  one.is_lost = true; // from now on it counts as one that cannot be spared
  had_double_loss_ |= unknown_losses_ > 0 || chief_.has_vacancy();
  ++unknown_losses_;
  at(chance(50) ? 1 : 1 + below(150), [this, process] {
    --unknown_losses_;
    react(chief_.on_server_lost(process));
  });
}

// -- the end ------------------------------------------------------------------

bool random_copies_job::is_done() const {
  return is_given_up_ || std::ranges::all_of(clients_, [](const auto& client) {
           return client.second.left == 0
                  && std::ranges::all_of(client.second.shards,
                                         [](const auto& shard) {
                                           return shard.second.open.empty()
                                                  && shard.second.reads.empty();
                                         });
         });
}

bool random_copies_job::is_settled() const {
  if (!chief_.is_settled())
    return false;
  const auto views = chief_.views();
  for (std::uint32_t s = 0; s < shards_; ++s) {
    const auto sequence =
      servers_.at(views[s].primary).copies[s].machine->position().sequence;
    for (const auto backup : views[s].backups)
      if (servers_.at(backup).copies[s].machine->position().sequence
          != sequence)
        return false;
  }
  return true;
}

void random_copies_job::check_table(std::uint32_t s, const copy& at) {
  auto table = at.table, expected = new_table();
  for (const auto& id : performed_[s])
    expected.apply(change_of(id));
  std::vector<std::int64_t> all;
  for (std::int64_t row = 0; row < table_rows; ++row)
    all.push_back(row);
  for (int i = 0; i < 3; ++i) { // also rows that are not yet kept
    if (!same_bits(table.value(), expected.value())
        || !same_bits(table.slot(0, rule, 0), expected.slot(0, rule, 0)))
      return fail("a copy of a table has other rows");
    table.apply(gradient_of(all));
    expected.apply(gradient_of(all));
  }
  count("copies of tables compared");
}

void random_copies_job::check_end() {
  if (!is_settled())
    return fail("not all copies follow in the end");
  const auto views = chief_.views();
  const auto living =
    std::size_t(std::ranges::count_if(servers_, [](const auto& x) {
      return x.second.is_alive && !x.second.is_lost;
    }));
  for (std::uint32_t s = 0; s < shards_; ++s) {
    const auto& primary = servers_.at(views[s].primary);
    if (!primary.is_alive || primary.is_lost)
      fail("a shard has no primary that lives");
    if (views[s].backups.size() + 1 != std::min<std::size_t>(copies_, living))
      fail("a shard has too few copies");
    const auto& first = primary.copies[s];
    check_table(s, first);
    for (const auto backup : views[s].backups) {
      check_table(s, servers_.at(backup).copies[s]);
      const auto& other = servers_.at(backup).copies[s];
      if (other.performed != first.performed || other.answers != first.answers)
        fail("a backup differs from its primary");
    }
    if (first.performed != performed_[s])
      fail("a primary lacks commands that another one has performed");
    for (const auto& [id, place] : answers_[s])
      if (place > first.performed.size() || first.performed[place - 1] != id)
        fail("a command that was answered has not taken effect");
  }
}

} // namespace troupe::parameter_server
