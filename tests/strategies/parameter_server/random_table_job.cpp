#include "troupe/tests/strategies/parameter_server/random_table_job.hpp"

#include "troupe/strategies/parameter_server/table_image.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace troupe::parameter_server {

namespace {

using kind = part_change::kind;

/// Number of the process of the first shard. Workers are before it.
constexpr std::uint64_t first_shard = 100;

tensor numbers(const std::vector<std::int64_t>& xs) {
  return tensor::of<std::int64_t>({std::int64_t(xs.size())}, xs);
}

/// Returns a change of a part of one row, whose row has the number 0.
part_change of_one_row(const part_change& from, const shape& dims,
                       const tensor& operand) {
  auto out = from;
  out.all = {};
  out.rows = {dims, numbers({0}), operand};
  return out;
}

} // namespace

random_table_job::random_table_job(std::uint64_t seed) : random_job{seed} {
  const auto rows = 1 + std::int64_t(below(chance(20) ? 400 : 40));
  dims_ = shape{{rows, 1 + std::int64_t(below(5))}};
  const std::vector<std::string> names{"uniform", "normal", "zeros",
                                       "glorot_uniform", "constant"};
  rules_ = {.initial = initializer{names[below(names.size())]},
            .key = initial_key(below(100), std::uint32_t(below(4))),
            .min_touches = chance(30) ? std::uint32_t(below(4)) : 1,
            .max_idle_changes = chance(30) ? std::uint32_t(1 + below(20)) : 0};
  initial_ = tensor{{dims_, dtype::float32}};
  rules_.initial.fill(initial_.mutable_data<float>(), dims_, rules_.key);
  const std::vector<update_rule> all{
    sgd{.learning_rate = 0.5f},
    sgd{.learning_rate = 0.5f, .momentum = 0.9f},
    sgd{.learning_rate = 0.5f, .momentum = 0.9f, .nesterov = true},
    adagrad{.learning_rate = 0.5f},
    adam{.learning_rate = 0.1f},
    adamw{.learning_rate = 0.1f},
    ftrl{.learning_rate = 0.5f, .l1_regularization_strength = 0.01f}};
  for (auto i = 1 + below(2); i > 0; --i)
    optimizers_.push_back(all[below(all.size())]);
  const row_sharding sharding{
    rows, std::uint32_t(1 + below(std::min<std::uint64_t>(rows, 4)))};
  for (std::uint32_t i = 0; i < sharding.shards(); ++i) {
    const auto range = sharding.range_of(i);
    shards_.push_back({table_part{dims_, range, rules_},
                       range,
                       std::vector<row_oracle>(std::size_t(range.size())),
                       0,
                       {}});
  }
  loss_percent_ = below(20);
  late_percent_ = below(30);
  left_ = 20 + below(100);
}

std::string random_table_job::run() {
  const auto workers = std::uint32_t(1 + below(4));
  for (std::uint32_t i = 0; i < workers; ++i)
    at(1 + below(5), [this, i] { send(i); });
  run_until(100'000, [] { return false; });
  for (const auto& one : shards_)
    check_all(one);
  return problem_;
}

std::string random_table_job::state_of(std::uint64_t process) const {
  return process < first_shard ? "worker" : "shard";
}

tensor random_table_job::random_values(const shape& dims) {
  tensor out{{dims, dtype::float32}};
  for (auto& x : out.mutable_data<float>())
    x = chance(10) ? 0 : float(std::int64_t(below(2001)) - 1000) * 0.001f;
  return out;
}

part_change random_table_job::random_change(const shard& at) {
  const shape dims = dims_.with_extent(0, at.range.size());
  part_change out;
  const auto optimizer = std::uint32_t(below(optimizers_.size()));
  const auto draw = below(100);
  const bool is_gradient = draw < 60;
  if (is_gradient || draw < 63) {
    out.what = is_gradient ? kind::gradient : kind::restore_slot;
    out.optimizer = optimizer;
    out.rule = optimizers_[optimizer];
    if (chance(30))
      out.learning_rate = 0.25f;
    if (chance(30))
      out.scale = 0.5f;
  } else {
    out.what = std::vector{kind::assign, kind::add, kind::subtract,
                           kind::minimum, kind::maximum}[below(5)];
  }
  if (out.what == kind::restore_slot && out.rule->slots() == 0)
    out.what = kind::restore_steps;
  if (out.what == kind::restore_steps) {
    out.steps = below(5);
    return out;
  }
  if (!is_gradient && (out.what == kind::restore_slot || chance(10))) {
    out.all = random_values(dims);
    if (out.what == kind::restore_slot) {
      out.slot = std::uint32_t(below(out.rule->slots()));
      for (auto& x : out.all.mutable_data<float>())
        x = x < 0 ? -x : x;
    }
    return out;
  }
  std::vector<std::int64_t> rows;
  for (auto i = below(8); i > 0; --i)
    rows.push_back(std::int64_t(below(std::uint64_t(at.range.size()))));
  out.rows = {dims, numbers(rows),
              random_values(dims.with_extent(0, std::int64_t(rows.size())))};
  return out;
}

/// A worker sends its next message.
void random_table_job::send(std::uint32_t worker) {
  if (left_ == 0)
    return;
  --left_;
  const auto i = below(shards_.size());
  auto& to = shards_[i];
  if (chance(30)) {
    std::vector<std::int64_t> rows;
    for (auto n = below(8); n > 0; --n)
      rows.push_back(std::int64_t(below(std::uint64_t(to.range.size()))));
    deliver(worker, first_shard + i, "pull",
            [this, &to, rows] { read(to, rows); });
  } else {
    deliver(worker, first_shard + i, "change",
            [this, &to, what = random_change(to)] { change(to, what); });
  }
  at(1 + below(10), [this, worker] { send(worker); });
}

void random_table_job::change(shard& at, const part_change& what) {
  std::vector<std::int64_t> rows;
  if (what.rows)
    for (const auto row : what.rows.indices().data<std::int64_t>())
      rows.push_back(row);
  if (chance(2))
    restore(at);
  auto excerpt = at.part.excerpt(rows);
  excerpt.apply(what);
  at.part.apply(what);
  change_oracle(at, what);
  count("changes");
  if (!rows.empty() && !same_bits(excerpt.rows(rows), at.part.rows(rows)))
    fail("an excerpt has other rows after a change");
  read(at, rows);
}

/// Another copy of the shard goes on, from a snapshot.
void random_table_job::restore(shard& at) {
  std::vector<tensor> beside;
  const auto image = at.part.save(beside);
  std::span<const tensor> left{beside};
  at.part =
    table_part::restore(table_part{dims_, at.range, rules_}, image, left);
  if (!left.empty())
    fail("tensors of a snapshot are left");
  count("parts restored");
}

void random_table_job::read(const shard& at, std::vector<std::int64_t> rows) {
  const auto found = at.part.rows(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto k = std::int64_t(i);
    if (!same_bits(found.slice(k, k + 1),
                   expected_row(at, std::size_t(rows[i]))))
      fail("row " + std::to_string(rows[i]) + " has other bits");
  }
  count("rows read", rows.size());
}

void random_table_job::check_all(const shard& at) {
  const auto all = at.part.value();
  std::uint64_t kept = 0;
  std::vector<std::vector<tensor>> slots;
  for (std::uint32_t i = 0; i < optimizers_.size(); ++i) {
    auto& made = slots.emplace_back();
    for (std::uint32_t slot = 0; slot < optimizers_[i].slots(); ++slot)
      made.push_back(at.part.slot(i, optimizers_[i], slot));
  }
  for (std::size_t row = 0; row < at.rows.size(); ++row) {
    const auto k = std::int64_t(row);
    if (!same_bits(all.slice(k, k + 1), expected_row(at, row)))
      fail("in the end row " + std::to_string(row) + " has other bits");
    const bool is_kept_here = is_kept(at, row);
    kept += is_kept_here ? 1 : 0;
    for (std::uint32_t i = 0; i < optimizers_.size(); ++i)
      for (std::uint32_t slot = 0; slot < optimizers_[i].slots(); ++slot)
        if (const auto expected =
              is_kept_here
                ? at.rows[row].value->slot(i, optimizers_[i], slot)
                : tensor::full(dims_.with_extent(0, 1),
                               optimizers_[i].initial_slot_value(slot));
            !same_bits(slots[i][slot].slice(k, k + 1), expected))
          fail("a slot of row " + std::to_string(row) + " has other bits");
  }
  count("rows kept", kept);
  count("rows not kept", at.rows.size() - kept);
  if (at.part.size() < kept
      || (rules_.max_idle_changes == 0 && at.part.size() != kept))
    fail("a part has " + std::to_string(at.part.size()) + " rows, not "
         + std::to_string(kept));
}

bool random_table_job::is_kept(const shard& at, std::size_t row) const {
  const auto& found = at.rows[row];
  return found.value
         && (rules_.max_idle_changes == 0
             || at.changes < found.last + rules_.max_idle_changes);
}

tensor random_table_job::expected_row(const shard& at, std::size_t row) const {
  const auto whole = at.range.begin + std::int64_t(row);
  return is_kept(at, row) ? at.rows[row].value->value()
                          : initial_.slice(whole, whole + 1);
}

stored_part& random_table_job::keep(shard& at, std::size_t row) {
  auto& found = at.rows[row];
  if (!is_kept(at, row)) {
    if (found.value)
      count("rows made again");
    const auto whole = at.range.begin + std::int64_t(row);
    found.value.emplace(initial_.slice(whole, whole + 1).clone());
  }
  found.touches = 0;
  found.last = at.changes + 1;
  return *found.value;
}

void random_table_job::change_row(shard& at, std::size_t row,
                                  const part_change& what) {
  if (what.what == kind::gradient) {
    auto& found = at.rows[row];
    const bool is_new = !is_kept(at, row);
    if (is_new && rules_.min_touches > 1) {
      if (rules_.max_idle_changes > 0 && found.touches > 0
          && at.changes >= rules_.max_idle_changes + found.last)
        found.touches = 0;
      if (++found.touches < rules_.min_touches) {
        found.value.reset();
        found.last = at.changes + 1;
        return count("gradients of rows not yet kept");
      }
    }
    auto& value = keep(at, row);
    auto steps = what;
    steps.what = kind::restore_steps;
    steps.rows = {};
    steps.steps = at.steps[what.optimizer];
    value.apply(steps);
    return value.apply(what);
  }
  keep(at, row).apply(what);
}

void random_table_job::change_oracle(shard& at, const part_change& what) {
  const auto one_row = dims_.with_extent(0, 1);
  if (what.what == kind::restore_steps) {
    at.steps[what.optimizer] = what.steps;
  } else if (what.all) {
    for (std::size_t row = 0; row < at.rows.size(); ++row) {
      const auto k = std::int64_t(row);
      const auto operand = what.all.slice(k, k + 1).clone();
      auto one = of_one_row(what, one_row, operand);
      if (what.what == kind::restore_slot) {
        one.rows = {};
        one.all = operand;
      }
      // A row that is not kept is made if it gets other bits.
      auto tried = is_kept(at, row) ? *at.rows[row].value
                                    : stored_part{expected_row(at, row)};
      tried.apply(one);
      const bool changes =
        what.what == kind::restore_slot
          ? !same_bits(
            operand,
            tensor::full(one_row, what.rule->initial_slot_value(what.slot)))
          : !same_bits(tried.value(), expected_row(at, row));
      if (is_kept(at, row) || changes)
        change_row(at, row, one);
    }
  } else {
    const auto rows = what.what == kind::gradient
                        ? what.rows.gradient().sorted()
                        : what.rows.gradient();
    const auto given = rows.indices().data<std::int64_t>();
    for (std::size_t i = 0; i < given.size(); ++i) {
      const auto k = std::int64_t(i);
      change_row(
        at, std::size_t(given[i]),
        of_one_row(what, one_row, rows.rows().slice(k, k + 1).clone()));
    }
    if (what.what == kind::gradient)
      ++at.steps[what.optimizer];
  }
  ++at.changes;
}

} // namespace troupe::parameter_server
