#pragma once

#include "troupe/simulation/simulator.hpp"

#include <caf/error.hpp>
#include <caf/event_based_actor.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

namespace troupe::test {

/// What became of a request.
template <class... Answer>
struct outcome {
  std::optional<std::tuple<Answer...>> answer{}; ///< None: not answered yet.
  std::string problem{};                         ///< Its error.
};

/// Sends a request to an actor of a simulator, and delivers all messages.
template <class... Answer, class Actor, class... Message>
auto outcome_of(simulation::simulator& sim, const Actor& to,
                Message... message) {
  const auto out = std::make_shared<outcome<Answer...>>();
  sim.spawn([=](caf::event_based_actor* self) -> caf::behavior {
    self->request(to, std::chrono::seconds{1000}, message...)
      .then([out](const Answer&... answer) { out->answer.emplace(answer...); },
            [out](const caf::error& e) { out->problem = caf::to_string(e); });
    return {};
  });
  sim.run_until_idle();
  return out;
}

} // namespace troupe::test
