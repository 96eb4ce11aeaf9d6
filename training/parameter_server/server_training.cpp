#include "troupe/training/parameter_server/server_training.hpp"

#include "troupe/actors/faults/process_fault_injector.hpp"
#include "troupe/training/parameter_server/replica_steps.hpp"
#include "troupe/training/parameter_server/server_batches.hpp"
#include "troupe/training/parameter_server/server_network.hpp"

#include <memory>
#include <utility>

namespace troupe {

void register_server_training(
  runtime& actors, std::function<server_training(const std::string&)> describe,
  const client_options& to_servers) {
  register_closures(
    actors, server_training_closures,
    configured_closures_factory{[describe = std::move(describe)](
                                  const parameter_server_strategy& servers,
                                  std::uint32_t, const std::string& arguments) {
      const auto what = describe(arguments);
      const auto network = std::make_shared<server_network>(
        servers, servers.variable(what.name), what.architecture, what.rule,
        what.options);
      const auto batches = std::make_shared<const server_batches>(
        metrics_of(network->used_loss(), what.metrics), what.class_weights,
        what.batches, what.validation);
      return registered_closures{
        {replica_closure,
         [network, batches, faults = what.faults](closure_context& self,
                                                  const tensors& inputs) {
           replica_steps steps{*network, *batches, decode_train_task(inputs),
                               self, [faults](std::uint64_t step) {
                                 if (faults)
                                   faults->on_step(step);
                               }};
           return encode(steps.run(), batches->metrics.sum_count());
         }},
        {score_closure,
         [network, batches](closure_context&, const tensors& inputs) {
           const auto task = decode_score_task(inputs);
           return encode({network->score(task, *batches)},
                         batches->metrics.sum_count());
         }}};
    }},
    to_servers);
}

} // namespace troupe
