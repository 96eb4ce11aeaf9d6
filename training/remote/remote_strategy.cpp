#include "troupe/training/remote/remote_strategy.hpp"

#include "troupe/training/remote/remote_strategy_impl.hpp"

namespace troupe {

remote_strategy::remote_strategy(runtime& local_runtime,
                                 const std::vector<std::string>& nodes,
                                 const remote_strategy_options& options)
  : impl_{std::make_unique<impl>(local_runtime, nodes, options)} {}

remote_strategy::~remote_strategy() = default;

std::uint32_t remote_strategy::num_replicas_in_sync() const {
  return impl_->replicas;
}

std::uint32_t remote_strategy::workers() const {
  return static_cast<std::uint32_t>(impl_->nodes_left());
}

const std::string& remote_strategy::transport() const {
  return impl_->first_info.transport;
}

remote_node& remote_strategy::node(std::size_t worker) {
  impl_->throw_if_failed();
  if (worker >= impl_->nodes.size())
    throw std::logic_error("node " + std::to_string(worker) + " of "
                           + std::to_string(impl_->nodes.size()));
  return *impl_->nodes[worker].node;
}

per_replica<tensors> remote_strategy::run(std::string_view step,
                                          const per_replica<tensors>& inputs) {
  const auto lock = impl_->lock_exclusively();
  impl_->check_function(impl_->first_info.runs, step, "run");
  if (inputs.size() != num_replicas_in_sync()
      || inputs.replica_ids().back() != num_replicas_in_sync() - 1)
    throw std::invalid_argument("inputs for " + std::to_string(inputs.size())
                                + " replicas; pass those of " + "all "
                                + std::to_string(num_replicas_in_sync()));
  impl_->use_spares();
  worker_request task;
  task.function = step;
  task.by_replica = inputs.values();
  return impl_->run(std::move(task));
}

per_replica<tensors> remote_strategy::run(std::string_view step,
                                          const tensors& inputs) {
  const auto lock = impl_->lock_exclusively();
  impl_->check_function(impl_->first_info.runs, step, "run");
  impl_->use_spares();
  return impl_->run({.function = std::string{step}, .common = inputs});
}

std::vector<tensors> remote_strategy::call(std::string_view function,
                                           const tensors& inputs) {
  const auto lock = impl_->lock_exclusively();
  impl_->check_function(impl_->first_info.calls, function, "call");
  impl_->use_spares();
  const auto replies =
    impl_->run_on_all({.function = std::string{function}, .common = inputs});
  std::vector<tensors> out;
  for (std::size_t w = 0; w < replies.size(); ++w)
    if (replies[w].status.done)
      out.push_back(impl_->split(w, replies[w], 1).front());
  return out;
}

void remote_strategy::add(const std::string& address) {
  const auto lock = impl_->lock_exclusively();
  impl_->add(address);
}

std::vector<std::string> remote_strategy::lost_nodes() const {
  std::vector<std::string> out;
  for (const auto& one : impl_->nodes)
    if (!one.worker)
      out.push_back(one.address);
  return out;
}

const std::string& remote_strategy::listen_address() const {
  return impl_->spares.address();
}

std::vector<std::string> remote_strategy::spares() const {
  return impl_->spares.waiting();
}

tensor remote_strategy::reduce(reduce_op op,
                               const per_replica<tensor>& x) const {
  return troupe::reduce(op, x.values());
}

tensors remote_strategy::reduce(reduce_op op,
                                const per_replica<tensors>& values) const {
  tensors out;
  for (std::size_t i = 0; values.size() > 0 && i < values.begin()->size();
       ++i) {
    std::vector<tensor> inputs;
    for (const auto& replica_tensors : values) {
      if (replica_tensors.size() != values.begin()->size())
        throw std::logic_error(
          "replicas returned " + std::to_string(replica_tensors.size())
          + " and " + std::to_string(values.begin()->size())
          + " tensors, which cannot be reduced");
      inputs.push_back(replica_tensors[i]);
    }
    out.push_back(troupe::reduce(op, inputs));
  }
  return out;
}

} // namespace troupe
