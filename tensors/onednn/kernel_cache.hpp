#pragma once

#include "troupe/tensors/onednn/onednn.hpp"

#include <memory>

namespace troupe {

/// Primitives that oneDNN prepared for the shapes that a context has used.
struct kernel_cache {
  kernel_cache();
  ~kernel_cache();

  struct primitive_cache;
  std::unique_ptr<primitive_cache> primitives;
};

} // namespace troupe
