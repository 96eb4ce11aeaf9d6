#include "troupe/training/remote/remote_strategy.hpp"

#include "troupe/training/remote/remote_strategy_impl.hpp"

namespace troupe {

remote_strategy::remote_strategy(runtime& on,
                                 const std::vector<std::string>& nodes,
                                 const remote_strategy_options& options)
  : impl_{std::make_unique<impl>(on, nodes, options)} {}

remote_strategy::~remote_strategy() = default;

std::uint32_t remote_strategy::num_replicas_in_sync() const {
  return static_cast<std::uint32_t>(impl_->seats.size()
                                    * impl_->options.devices.size());
}

std::uint32_t remote_strategy::workers() const {
  return static_cast<std::uint32_t>(impl_->seats.size());
}

const std::string& remote_strategy::transport() const {
  return impl_->seats.front().transport;
}

remote_node& remote_strategy::node(std::size_t worker) {
  impl_->check_left();
  if (worker >= impl_->nodes.size())
    throw std::logic_error("node " + std::to_string(worker) + " of "
                           + std::to_string(impl_->nodes.size()));
  return *impl_->nodes[worker];
}

per_replica<tensors> remote_strategy::run(std::string_view step,
                                          const per_replica<tensors>& inputs) {
  const auto hold = impl_->enter();
  impl_->check_usable(impl_->seats.front().runs, step, "run");
  if (inputs.first() != 0 || inputs.size() != num_replicas_in_sync())
    throw std::invalid_argument("inputs for " + std::to_string(inputs.size())
                                + " replicas; pass those of " + "all "
                                + std::to_string(num_replicas_in_sync()));
  worker_task task{std::string{step}, 0, {}, {}};
  for (const auto& seat : impl_->seats) {
    auto& parts = task.parts.emplace_back();
    auto& all = task.inputs.emplace_back();
    for (auto i = seat.first; i < seat.first + seat.count; ++i) {
      parts.push_back(static_cast<std::uint32_t>(inputs[i].size()));
      all.insert(all.end(), inputs[i].begin(), inputs[i].end());
    }
  }
  return impl_->run(std::move(task));
}

per_replica<tensors> remote_strategy::run(std::string_view step,
                                          const tensors& inputs) {
  const auto hold = impl_->enter();
  impl_->check_usable(impl_->seats.front().runs, step, "run");
  return impl_->run(impl_->same_for_all(step, inputs));
}

std::vector<tensors> remote_strategy::call(std::string_view what,
                                           const tensors& inputs) {
  const auto hold = impl_->enter();
  impl_->check_usable(impl_->seats.front().calls, what, "call");
  const auto answers = impl_->tell_all(impl_->same_for_all(what, inputs));
  std::vector<tensors> out;
  for (std::size_t w = 0; w < answers.size(); ++w)
    out.push_back(impl_->cut(w, answers[w], 1).front());
  return out;
}

tensor remote_strategy::reduce(reduce_op op,
                               const per_replica<tensor>& x) const {
  return troupe::reduce(op, x.values());
}

tensors remote_strategy::reduce(reduce_op op,
                                const per_replica<tensors>& x) const {
  tensors out;
  for (std::size_t i = 0; x.size() > 0 && i < x.begin()->size(); ++i) {
    std::vector<tensor> parts;
    for (const auto& one : x) {
      if (one.size() != x.begin()->size())
        throw std::logic_error("replicas returned " + std::to_string(one.size())
                               + " and " + std::to_string(x.begin()->size())
                               + " tensors, which cannot be reduced");
      parts.push_back(one[i]);
    }
    out.push_back(troupe::reduce(op, parts));
  }
  return out;
}

} // namespace troupe
