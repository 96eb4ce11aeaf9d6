#include "troupe/actors/coordinator/closure_link.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/remoting/message_codec.hpp"

#include <exception>
#include <memory>
#include <utility>

namespace troupe {

closure_worker_actor::behavior_type
closure_link(closure_worker_actor::pointer self,
             const closure_link_config& config) {
  install_exception_handler(self);
  self->monitor(config.worker);
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->quit(x.reason); });
  const auto on_error = [=](const coordinator::execution& which,
                            caf::error& error) {
    const auto found = wire::to_wire(error, self->system());
    if (found.code == ec::cancelled)
      return self->send(config.owner, config.id, coordinator::stopped{which});
    if (found.code != ec::invalid && found.code != ec::stalled)
      return self->quit(error); // the worker cannot be used
    const job_error thrown{ec::invalid,
                           "worker " + std::to_string(config.number) + " ("
                             + config.address + "): " + found.text};
    self->send(config.owner, config.id, coordinator::failed{which},
               closure_failure{std::make_exception_ptr(thrown), config.number});
  };
  return {
    [=](const coordinator::run& x, const shared_closure& what) {
      self->request(config.worker, config.timeout, x, what->name, what->inputs)
        .then(
          [=](const coordinator::ended& end, const tensors& results) {
            self->send(
              config.owner, config.id, end,
              coordinator::payload{std::make_shared<const tensors>(results)});
          },
          [=, which = x.execution](caf::error& error) {
            on_error(which, error);
          });
    },
    [=](const coordinator::cancel& x) { self->send(config.worker, x); },
    [](atom::next) {},
    [](atom::wake) {},
  };
}

} // namespace troupe
