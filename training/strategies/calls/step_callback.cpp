#include "troupe/training/strategies/calls/step_callback.hpp"

#include <stdexcept>
#include <thread>

namespace troupe {

namespace {

[[noreturn]] void throw_called_in_step(const std::string& operation) {
  throw std::logic_error(
    operation
    + " was called in callback::on_step, while later steps of the fit may "
      "change the model; call it in on_epoch_end, or after fit");
}

/// Returns the model whose callback this thread is in. Null: none.
const void* model_of_callback(const strategy_state& strategy) {
  const void* const model = strategy.step_callback_of;
  return model && strategy.step_callback_thread == std::this_thread::get_id()
           ? model
           : nullptr;
}

} // namespace

step_callback_scope::step_callback_scope(strategy_state& strategy,
                                         const void* model)
  : strategy_{strategy} {
  strategy_.step_callback_thread = std::this_thread::get_id();
  strategy_.step_callback_of = model;
}

step_callback_scope::~step_callback_scope() {
  strategy_.step_callback_of = nullptr;
}

void check_no_step_callback(const strategy_state& strategy,
                            const std::string& operation) {
  if (model_of_callback(strategy))
    throw_called_in_step(operation);
}

void check_no_step_callback_of(const strategy_state& strategy,
                               const void* model,
                               const std::string& operation) {
  if (model_of_callback(strategy) == model)
    throw_called_in_step(operation);
}

} // namespace troupe
