#include "troupe/training/loop/exchange/bucket_exchange.hpp"

#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/device_backend.hpp"
#include "troupe/tensors/op_threads.hpp"
#include "troupe/training/loop/model/update_target.hpp"
#include "troupe/training/strategies/state_transfer/state_source.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

namespace {

std::vector<bucket> buckets_of(const parameters& model_parameters) {
  std::vector<std::size_t> offsets;
  for (std::size_t i = 0; i < model_parameters.variables().size(); ++i)
    offsets.push_back(model_parameters.offset(i));
  return make_buckets(offsets, model_parameters.size(),
                      bucket_exchange::bucket_bytes / sizeof(float));
}

/// Returns true if no element is infinite or NaN.
/// @cost one read of the elements.
bool all_finite(const tensor& values) {
  const auto elements = values.data<float>();
  std::atomic<bool> finite = true;
  for_elements(elements.size(), [&](std::size_t begin, std::size_t end) {
    if (kernels().any_exceeds(elements.data() + begin, end - begin,
                              std::numeric_limits<float>::max()))
      finite = false;
  });
  return finite;
}

} // namespace

bucket_exchange::bucket_exchange(model_state& model, const step_rules& rules,
                                 const trained_parameters& trained,
                                 std::size_t sums,
                                 std::shared_ptr<parameter_audit> audit)
  : model_{model},
    rules_{rules},
    audit_{std::move(audit)},
    frozen_index_{trained.frozen()},
    frozen_ranges_{trained.frozen_ranges()} {
  const auto& all = model_.model_parameters;
  const auto cut = buckets_of(all);
  for (const auto& one : cut)
    update_ranges_.push_back(trained.dense_ranges(one.begin, one.end));
  for (std::uint32_t id = 0; id < all.replicas(); ++id) {
    auto& self = replicas_.emplace_back();
    self.gradient = all.gradients(id);
    self.values = all.values(id);
    self.update.emplace(model_, id);
    self.is_not_finite =
      tensor::zeros({1}, dtype::int32, self.gradient.device());
    for (const auto& b : cut)
      self.bucket_gradients.push_back(self.gradient.range(b.begin, b.end));
    self.sums.resize(cut.size());
    const auto report = audit_ ? parameter_audit::report_values : 0;
    self.own_metrics = tensor::zeros(
      {static_cast<std::int64_t>(1 + sums + report)}, dtype::float64);
    self.reports.resize(audit_ ? model_.strategy->replicas : 0);
    self.metrics.resize(model_.strategy->replicas);
    for (auto& one : self.metrics)
      one.reset(sums);
    self.tracker = {cut, all.variables().size()};
  }
}

void bucket_exchange::begin(const replica_step& step) {
  auto& self = replicas_[step.index];
  self.tracker.reset();
  // In a bucket, the sum of a frozen gradient, or the NaN of a step that was
  // skipped, may have overwritten it.
  for (const auto& one : frozen_ranges_)
    self.gradient.range(one.begin, one.end).set_zero();
  for (const auto i : frozen_index_)
    on_gradient(step, i);
}

void bucket_exchange::on_gradient(const replica_step& step,
                                  std::size_t parameter) {
  replicas_[step.index].tracker.on_gradient_ready(
    parameter, [&](std::uint32_t bucket) { contribute(step, bucket); });
}

void bucket_exchange::begin_without_examples(const replica_step& step) {
  auto& self = replicas_[step.index];
  self.tracker.reset();
  self.gradient.set_zero();
  for (std::size_t i = 0; i < model_.variables().size(); ++i)
    on_gradient(step, i);
}

tensor bucket_exchange::contribution(const replica_step& step,
                                     std::uint32_t bucket) {
  auto& self = replicas_[step.index];
  const auto& own = self.bucket_gradients[bucket];
  if (own.device().kind == device_kind::cpu
      || step.context->takes_device_tensors())
    return own;
  if (self.host_gradients.empty()) {
    const tensor all{self.gradient.spec()};
    for (const auto& b : self.tracker.buckets())
      self.host_gradients.push_back(all.range(b.begin, b.end));
  }
  self.host_gradients[bucket].copy_from(own);
  return self.host_gradients[bucket];
}

void bucket_exchange::contribute(const replica_step& step,
                                 std::uint32_t bucket) {
  const auto& self = replicas_[step.index];
  const sharing_scope sums_are_shared{true};
  const auto contributed = contribution(step, bucket);
  // If the loss is not finite, this replica sets the first element of its
  // gradient to NaN. The sum is then NaN on all replicas, and all skip the
  // update. The last bucket contains that element.
  if (!step.is_loss_finite && bucket + 1 == self.bucket_gradients.size())
    contributed.range(0, 1).copy_from(
      tensor::full({1}, std::numeric_limits<float>::quiet_NaN()));
  step.context->contribute_in_place(bucket, contributed);
}

gradient_exchange::outcome bucket_exchange::update(const replica_step& step) {
  auto& self = replicas_[step.index];
  // All buckets are contributed, so that the wait for the metrics is part of
  // the wait for the sums.
  const bool copies_agree = gather_metrics(step);
  const bool is_finite = sum(step);
  const auto number = step.context->step;
  self.updated = is_finite && copies_agree && step.examples > 0;
  self.rate = self.updated ? rules_.learning_rate(number) : 0;
  if (self.updated)
    update_copy(self, rules_.at(number, step.examples, self.rate));
  return {is_finite, copies_agree, self.metrics};
}

bool bucket_exchange::gather_metrics(const replica_step& step) {
  auto& self = replicas_[step.index];
  const auto& report = step.context->report;
  const auto own = self.own_metrics.mutable_data<double>();
  own[0] = static_cast<double>(report.examples);
  std::ranges::copy(report.sums, own.begin() + 1);
  const bool audits = audit_ && audit_->is_due(step.context->step);
  if (audits)
    audit_->write_report(step.index, step.context->step,
                         own.subspan(1 + report.sums.size()));
  const auto all = step.context->gather(
    static_cast<std::uint32_t>(self.sums.size()), self.own_metrics);
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto values = all[r].data<double>();
    auto& one = self.metrics[r];
    if (values.size() != own.size())
      throw std::logic_error("replica " + std::to_string(r) + " reported "
                             + std::to_string(values.size() - 1)
                             + " metric sums, but this replica has "
                             + std::to_string(own.size() - 1));
    one.examples = static_cast<std::uint64_t>(values[0]);
    const auto rest = values.subspan(1);
    std::ranges::copy(rest.first(one.sums.size()), one.sums.begin());
    if (audits)
      self.reports[r] = parameter_audit::read_report(
        static_cast<std::uint32_t>(r), rest.subspan(one.sums.size()));
  }
  return !audits || audit_->judge(step.context->step, step.index, self.reports);
}

bool bucket_exchange::sum(const replica_step& step) {
  auto& self = replicas_[step.index];
  for (std::uint32_t b = 0; b < self.sums.size(); ++b)
    self.sums[b] = step.context->sum(b);
  step.context->begin_update();
  return has_device_sums(self) ? take_device_sums(self)
                               : std::ranges::all_of(self.sums, all_finite);
}

bool bucket_exchange::has_device_sums(const replica& self) const {
  return !self.sums.empty()
         && self.sums.front().device().kind != device_kind::cpu;
}

bool bucket_exchange::take_device_sums(replica& self) const {
  for (std::size_t b = 0; b < self.sums.size(); ++b)
    self.bucket_gradients[b].copy_from(self.sums[b]);
  if (self.gradient.size() == 0)
    return true;
  self.is_not_finite.set_zero();
  const auto on = self.gradient.device();
  backend_of(on).find_exceeding(
    on, float_address(self.gradient), self.gradient.size(),
    std::numeric_limits<float>::max(),
    reinterpret_cast<std::int32_t*>(self.is_not_finite.address()));
  return self.is_not_finite.to({}).data<std::int32_t>()[0] == 0;
}

void bucket_exchange::update_copy(replica& self, const rule_step& rule) {
  if (has_device_sums(self)) {
    for (const auto& of_bucket : update_ranges_)
      for (const auto& range : of_bucket)
        self.update->by_gradient(rule, range);
    return;
  }
  for (std::size_t b = 0; b < update_ranges_.size(); ++b) {
    const auto* sum = self.sums[b].data<float>().data();
    const auto offset = self.tracker.buckets()[b].begin;
    for (const auto& range : update_ranges_[b])
      (*self.update)(rule, range, sum + (range.begin - offset));
  }
}

void bucket_exchange::end(const replica_step& step, std::uint64_t steps_done,
                          bool is_stopped) {
  if (!is_stopped)
    publish(step, steps_done);
  for (auto& one : replicas_[step.index].sums)
    one = {};
}

void bucket_exchange::publish(const replica_step& step,
                              std::uint64_t steps_done) {
  const auto& source = model_.strategy->source;
  if (!source || !source->is_followed() || step.index != 0)
    return;
  const auto& self = replicas_[step.index];
  std::vector<tensor> state{self.values};
  state.insert(state.end(), model_.slots[0].begin(), model_.slots[0].end());
  std::vector<state_source::gradient_part> sums;
  for (std::size_t b = 0; b < self.sums.size(); ++b)
    sums.push_back({self.tracker.buckets()[b].begin, self.sums[b].to({})});
  source->on_update({.steps = steps_done,
                     .is_skipped = !self.updated,
                     .examples = static_cast<std::uint64_t>(step.examples),
                     .learning_rate = self.rate,
                     .state = state,
                     .sums = sums});
}

void bucket_exchange::replace_copies(std::uint32_t source) {
  model_.broadcast_copy(source);
}

} // namespace troupe
