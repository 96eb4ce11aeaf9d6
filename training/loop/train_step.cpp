#include "troupe/training/loop/train_step.hpp"

#include "troupe/models/metrics.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/tape.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace troupe {

namespace {

std::vector<bucket> buckets_of(const parameters& own) {
  std::vector<std::size_t> offsets;
  for (std::size_t i = 0; i < own.variables().size(); ++i)
    offsets.push_back(own.offset(i));
  return cut_into_buckets(offsets, own.size(),
                          train_step::bucket_bytes / sizeof(float));
}

/// True if no element is infinite or NaN.
/// @cost one read of the elements.
bool all_finite(const tensor& x) {
  // Adding one to an exponent of all ones carries into the sign.
  constexpr std::uint32_t exponent = 0x7f800000, one = 0x00800000;
  std::uint32_t carries = 0;
  for (const auto v : x.data<float>())
    carries |= (std::bit_cast<std::uint32_t>(v) & exponent) + one;
  return carries >> 31 == 0;
}

} // namespace

train_step::train_step(std::shared_ptr<model_state> of,
                       const fit_options& options)
  : owned_{std::move(of)},
    it_{*owned_},
    schedule_{options.schedule},
    on_nan_{options.on_nan},
    first_{it_.strategy->here.first},
    shared_{it_.strategy->here.count > 1 && it_.own.copies() == 1} {
  const auto replicas = it_.strategy->replicas;
  const auto count = it_.strategy->here.count;
  const auto cut = replicas > 1 ? buckets_of(it_.own) : std::vector<bucket>{};
  for (std::uint32_t id = 0; id < count; ++id) {
    auto& mine = replicas_.emplace_back();
    const auto copy = shared_ ? 0 : id;
    mine.values = it_.own.values(copy);
    mine.gradient = it_.own.gradients(id);
    for (std::size_t s = 0; s < it_.rule.slots(); ++s)
      mine.slots[s] = it_.slots[copy][s].mutable_data<float>();
    for (const auto& b : cut)
      mine.parts.push_back(mine.gradient.range(b.begin, b.end));
    mine.sums.resize(cut.size());
    mine.progress = {cut, it_.own.variables().size()};
    mine.done = it_.steps;
    if (replicas > 1)
      mine.completed = [this, &mine](std::size_t parameter) {
        mine.progress.complete(
          parameter, [&](std::uint32_t bucket) { contribute(mine, bucket); });
      };
  }
  next_shared_ = it_.steps;
}

float train_step::learning_rate(std::uint64_t step) const {
  return schedule_ ? schedule_->at(step) : it_.rule.learning_rate();
}

void train_step::operator()(step_context& at) {
  auto& mine = replicas_[at.replica - first_];
  at.report = {};
  if (mine.halted)
    return; // All replicas stopped at the same step.
  mine.at = &at;
  mine.finite = true;
  const auto read = feed_->of(at.step);
  const auto part = read.part_of(at.replica, at.replicas);
  current_context().random = {it_.seed, at.replica, at.step, 0};
  mine.progress.restart();
  forward_and_backward(mine, part);
  at.report.examples = part.labels.size();
  const bool good =
    at.replicas > 1 ? sum(mine) : mine.finite && all_finite(mine.gradient);
  if (good) {
    update(mine, read.whole);
  } else {
    at.report.correct = std::numeric_limits<double>::quiet_NaN();
    mine.halted = on_nan_ == on_nan::stop;
  }
  if (!mine.halted)
    mine.done = at.step + 1;
  for (auto& one : mine.sums)
    one = {};
}

void train_step::forward_and_backward(replica& mine, const batch& part) {
  const auto variables = it_.variables();
  if (part.labels.size() == 0) {
    std::memset(mine.gradient.raw(), 0, mine.gradient.bytes());
    for (std::size_t i = 0; mine.completed && i < variables.size(); ++i)
      mine.completed(i);
    return;
  }
  tape t;
  const auto outputs =
    it_.net.forward(part.inputs, variables, {.training = true});
  const auto losses = it_.loss->of(outputs, part.labels);
  auto& report = mine.at->report;
  report.loss_sum = models::total(losses);
  if (it_.loss->classifies)
    report.correct = static_cast<double>(models::correct(outputs, part.labels));
  mine.finite = std::isfinite(report.loss_sum);
  t.gradient_into_variables(losses, variables, mine.completed);
}

void train_step::contribute(replica& mine, std::uint32_t bucket) {
  // If the loss is not finite, the sum shall inform all replicas: the first
  // element of the buffer, which the last bucket contains, becomes NaN.
  if (!mine.finite && bucket + 1 == mine.parts.size())
    mine.gradient.mutable_data<float>()[0] =
      std::numeric_limits<float>::quiet_NaN();
  mine.at->give(bucket, mine.parts[bucket]);
}

bool train_step::sum(replica& mine) {
  for (std::uint32_t b = 0; b < mine.sums.size(); ++b)
    mine.sums[b] = mine.at->sum(b);
  mine.at->begin_update();
  // Replicas that take turns on one copy get the same sums, so only the first
  // of them scans the sums.
  if (shared_ && scanned_ == mine.at->step)
    return sums_finite_;
  const bool finite = std::ranges::all_of(mine.sums, all_finite);
  if (shared_) {
    scanned_ = mine.at->step;
    sums_finite_ = finite;
  }
  return finite;
}

void train_step::update(replica& mine, std::int64_t examples) {
  const auto step = mine.at->step;
  // If replicas take turns on one copy, the first that has all sums updates it.
  // By then all of them have read the copy.
  const bool due = !shared_ || next_shared_ <= step;
  if (due && shared_)
    next_shared_ = step + 1;
  if (due && examples > 0) {
    const auto rate = learning_rate(step);
    const auto scale = 1 / static_cast<float>(examples);
    const auto range = [&](std::size_t begin, std::size_t end,
                           std::span<const float> gradient) {
      std::array<std::span<float>, 2> slots;
      for (std::size_t s = 0; s < it_.rule.slots(); ++s)
        slots[s] = mine.slots[s].subspan(begin, end - begin);
      it_.rule.apply(
        mine.values.mutable_data<float>().subspan(begin, end - begin), gradient,
        std::span{slots}.first(it_.rule.slots()), step + 1, rate, scale);
    };
    if (mine.parts.empty())
      range(0, mine.values.size(), mine.gradient.data<float>());
    for (std::size_t b = 0; b < mine.parts.size(); ++b) {
      const auto& at = mine.progress.buckets()[b];
      range(at.begin, at.end, mine.sums[b].data<float>());
    }
  }
}

void train_step::catch_up() {
  const auto first = std::ranges::max_element(replicas_, {}, &replica::done);
  const auto behind = [&](const replica& x) { return x.done < first->done; };
  it_.steps = first->done;
  if (shared_ || std::ranges::none_of(replicas_, behind))
    return;
  const auto ahead = static_cast<std::size_t>(first - replicas_.begin());
  it_.share_copy(static_cast<std::uint32_t>(ahead));
  for (auto& one : replicas_)
    one.done = first->done;
}

} // namespace troupe
