#pragma once

#include "troupe/actors/core/fault_injector.hpp"
#include "troupe/strategies/tree/reduction.hpp"

namespace troupe {

/// A message that carries a tensor, in the form that a port keeps.
struct letter {
  subject what = subject::part; ///< part, sum or share.
  tree::stamp at;
  tensor data;
  tensor room; ///< Of a part.
};

} // namespace troupe
