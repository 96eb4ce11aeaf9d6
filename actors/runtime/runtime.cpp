#include "troupe/actors/runtime/runtime.hpp"

#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/runtime/config.hpp"
#include "troupe/actors/runtime/role_registry.hpp"
#include "troupe/net/base/notification.hpp"

#include <caf/actor_system.hpp>

#include <cstdio>
#include <mutex>
#include <random>
#include <thread>

namespace troupe {

struct runtime::impl {
  explicit impl(const runtime_options& x)
    : settings{make_config(x)}, system{*settings} {
    release_caf_logger();
  }

  static std::unique_ptr<config> make_config(const runtime_options& x) {
    auto result = std::make_unique<config>();
    if (x.threads > 0)
      result->put("scheduler.max-threads", x.threads);
    return result;
  }

  static std::uint64_t random_incarnation() {
    std::random_device from;
    return std::uint64_t{from()} << 32 | from();
  }

  const std::uint64_t incarnation = random_incarnation();
  std::shared_ptr<role_registry> roles = std::make_shared<role_registry>();
  std::unique_ptr<config> settings;
  caf::actor_system system;
};

namespace {

void log_to_stderr(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
}

} // namespace

runtime::runtime(const runtime_options& options)
  : options_{options}, impl_{std::make_unique<impl>(options)} {
  if (!options_.log)
    options_.log = log_to_stderr;
}

runtime::~runtime() {
  // The destructor of the actor system waits for the last actor without a
  // timeout, so another thread calls it.
  release_caf_logger();
  // `impl_` stays set during the wait, because roles with their own threads may
  // still call `system`.
  auto system_deleted = std::make_shared<net::notification>();
  std::thread deleter{[system_deleted, it = impl_.get()] {
    delete it;
    system_deleted->notify();
  }};
  const bool done = system_deleted->wait_for(options_.shutdown_timeout);
  static_cast<void>(impl_.release()); // the other thread deletes the object
  if (done) {
    deleter.join();
    return;
  }
  deleter.detach();
  options_.log("runtime: some actors did not end within "
               + std::to_string(options_.shutdown_timeout.count())
               + " ms; they and their threads are abandoned");
}

caf::actor_system& runtime::system() {
  return impl_->system;
}

std::shared_ptr<role_registry> runtime::roles() const {
  return impl_->roles;
}

std::uint64_t runtime::incarnation() const {
  return impl_->incarnation;
}

} // namespace troupe
