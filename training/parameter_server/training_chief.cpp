#include "troupe/training/parameter_server/training_chief.hpp"

#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include <chrono>
#include <future>
#include <memory>
#include <utility>

namespace troupe {

namespace {

/// A training ends with its epoch.
constexpr std::chrono::minutes max_training_time{60 * 24 * 365};

} // namespace

training_chief::training_chief(const parameter_servers& servers,
                               lead_training what,
                               std::function<void(const job_error&)> on_end)
  : router_{servers.router()}, training_{what.training} {
  const auto sent = std::make_shared<std::promise<void>>();
  // It waits for the answer, which comes at the end of the chief.
  servers.system().spawn(
    [sent, router = router_, what = std::move(what),
     on_end = std::move(on_end)](caf::event_based_actor* self) {
      self->request(router, max_training_time, what)
        .then([](std::uint64_t) {},
              [self, on_end](const caf::error& e) {
                const auto found = wire::to_wire(e, self->system());
                on_end({found.code, found.text});
              });
      sent->set_value();
    });
  // `stop` must not come before the request.
  if (sent->get_future().wait_for(servers.options().timeout)
      != std::future_status::ready)
    throw job_error{ec::stalled, "the chief of a training does not begin"};
}

training_chief::~training_chief() {
  caf::anon_send(router_, atom::stop_v, training_);
}

void tell_chief(const shard_router_actor& router, std::uint64_t training,
                std::uint32_t replica, std::uint64_t next_step) {
  caf::anon_send(router,
                 parameter_server::contributed{replica, next_step, training});
}

} // namespace troupe
