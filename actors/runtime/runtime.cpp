#include "troupe/actors/runtime/runtime.hpp"

#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/runtime/config.hpp"
#include "troupe/actors/runtime/role_registry.hpp"

#include <caf/actor_system.hpp>
#include <caf/logger.hpp>

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <random>
#include <thread>

namespace troupe {

void forget_logger() {
  caf::logger::set_current_actor_system(nullptr);
}

struct runtime::impl {
  explicit impl(const runtime_options& x)
    : settings{configured(x)}, system{*settings} {
    forget_logger();
  }

  static std::unique_ptr<config> configured(const runtime_options& x) {
    auto it = std::make_unique<config>();
    if (x.threads > 0)
      it->put("scheduler.max-threads", x.threads);
    return it;
  }

  static std::uint64_t drawn() {
    std::random_device from;
    return std::uint64_t{from()} << 32 | from();
  }

  const std::uint64_t incarnation = drawn();
  std::shared_ptr<role_registry> roles = std::make_shared<role_registry>();
  std::unique_ptr<config> settings;
  caf::actor_system system;
};

namespace {

void log_to_stderr(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
}

/// One-shot notification that another thread has ended.
struct end_note {
  std::mutex lock;
  std::condition_variable news;
  bool done = false;

  void say() {
    const std::lock_guard hold{lock};
    done = true;
    news.notify_all();
  }
  bool wait(std::chrono::milliseconds patience) {
    std::unique_lock hold{lock};
    return news.wait_for(hold, patience, [this] { return done; });
  }
};

} // namespace

runtime::runtime(const runtime_options& options)
  : options_{options}, impl_{std::make_unique<impl>(options)} {
  if (!options_.log)
    options_.log = log_to_stderr;
}

runtime::~runtime() {
  // CAF waits for its last actor without a timeout, so another thread waits.
  forget_logger();
  // Meanwhile roles on their own threads may still use the system.
  auto note = std::make_shared<end_note>();
  std::thread last{[note, it = impl_.get()] {
    delete it;
    note->say();
  }};
  const bool done = note->wait(options_.patience);
  static_cast<void>(impl_.release()); // that thread deletes it
  if (done) {
    last.join();
    return;
  }
  last.detach();
  options_.log("runtime: some actors did not end within "
               + std::to_string(options_.patience.count())
               + " ms; they and their threads are left behind");
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
