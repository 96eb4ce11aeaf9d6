#pragma once

#include "troupe/training/strategies/replica/strategy_state.hpp"

#include <string>

// The functions that `fit` calls while later steps may run.

namespace troupe {

/// This thread is in `callback::on_step` of a fit while the object exists.
class step_callback_scope {
public:
  /// @param model the state of the model that the fit trains.
  step_callback_scope(strategy_state& strategy, const void* model);
  ~step_callback_scope();
  step_callback_scope(const step_callback_scope&) = delete;
  step_callback_scope& operator=(const step_callback_scope&) = delete;

private:
  strategy_state& strategy_;
};

/// Checks that a call of the job may be made here.
/// @param operation name of the call in the error text.
/// @errors throws std::logic_error if this thread is in `callback::on_step` of
///         a fit of the strategy.
void check_no_step_callback(const strategy_state& strategy,
                            const std::string& operation);

/// Checks that a model may be read or changed here.
/// @param model the state of the model, which belongs to the strategy.
/// @errors throws std::logic_error if this thread is in `callback::on_step` of
///         a fit of the model.
void check_no_step_callback_of(const strategy_state& strategy,
                               const void* model, const std::string& operation);

} // namespace troupe
