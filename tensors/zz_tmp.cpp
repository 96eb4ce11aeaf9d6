#include "troupe/tensors/context.hpp"
namespace troupe {
struct kernel_cache {};
namespace {
thread_local context* installed = nullptr;
context& own_context() { thread_local context it; return it; }
}
context::context() = default;
context::~context() = default;
[[gnu::noinline]] context& current_context() noexcept { return installed ? *installed : own_context(); }
[[gnu::noinline]] context* exchange_context(context* next) noexcept { auto* before = installed; installed = next; return before; }
void use_threads(int) {}
}
