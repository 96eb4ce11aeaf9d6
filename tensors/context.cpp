#include "troupe/tensors/context.hpp"

#include "troupe/tensors/onednn/kernel_cache.hpp"
#include "troupe/tensors/onednn/onednn.hpp"

#include <utility>

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

sharing_scope::sharing_scope(bool makes_shareable_tensors)
  : before_{std::exchange(current_context().makes_shareable_tensors,
                          makes_shareable_tensors)} {}

sharing_scope::~sharing_scope() {
  current_context().makes_shareable_tensors = before_;
}

tf32_scope::tf32_scope(bool allows)
  : before_{std::exchange(current_context().allows_tf32, allows)} {}

tf32_scope::~tf32_scope() {
  current_context().allows_tf32 = before_;
}

void use_threads(int count) {
  onednn::set_threads(count);
}

} // namespace troupe
