#include "troupe/tensors/context.hpp"

#include "troupe/tensors/onednn/kernel_cache.hpp"
#include "troupe/tensors/onednn/onednn.hpp"

namespace troupe {

namespace {

thread_local context* installed = nullptr;

context& own_context() {
  thread_local context it;
  return it;
}

} // namespace

context::context() = default;
context::~context() = default;

// Not inlined, so that a caller cannot keep the address of a thread-local
// variable across a fiber switch: the fiber may resume on another thread.
[[gnu::noinline]] context& current_context() noexcept {
  return installed ? *installed : own_context();
}

[[gnu::noinline]] context* exchange_context(context* next) noexcept {
  auto* before = installed;
  installed = next;
  return before;
}

void use_threads(int count) {
  onednn::set_threads(count);
}

} // namespace troupe
