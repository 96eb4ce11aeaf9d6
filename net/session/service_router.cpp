#include "troupe/net/session/service_router.hpp"

#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

constexpr std::byte too_early{1};

} // namespace

bool is_too_early(const std::vector<std::byte>& note) {
  return note == std::vector<std::byte>{too_early};
}

/// The registered services, by job and purpose.
class door::desk {
public:
  using key = std::pair<std::string, std::string>; ///< Job, purpose.

  struct entry {
    std::mutex lock; ///< Held while the handler is called.
    host by;
    bool open = true;
  };

  std::shared_ptr<entry> add(const key& x, host&& by) {
    const auto it = std::make_shared<entry>();
    it->by = std::move(by);
    const std::lock_guard hold{lock_};
    if (!entries_.emplace(x, it).second)
      throw std::logic_error("'" + x.second + "' of job '" + x.first
                             + "' is registered already");
    return it;
  }

  void remove(const key& x, entry& it) {
    {
      const std::lock_guard hold{lock_};
      entries_.erase(x);
    }
    const std::lock_guard hold{it.lock}; // waits for a running call
    it.open = false;
    it.by = {};
  }

  net::verdict decide(const net::hello& x) {
    const auto it = find(x);
    if (!it)
      return nobody(x);
    const std::lock_guard hold{it->lock};
    if (!it->open)
      return nobody(x);
    return it->by.decide(x);
  }

  void take(const net::hello& x, net::arrived&& what) {
    if (const auto it = find(x)) {
      const std::lock_guard hold{it->lock};
      if (it->open)
        it->by.take(x, std::move(what));
    }
  }

  void gone(const net::hello& x) {
    if (const auto it = find(x)) {
      const std::lock_guard hold{it->lock};
      if (it->open && it->by.gone)
        it->by.gone(x);
    }
  }

private:
  std::shared_ptr<entry> find(const net::hello& x) const {
    const std::lock_guard hold{lock_};
    const auto it = entries_.find({x.job, x.purpose});
    return it == entries_.end() ? nullptr : it->second;
  }

  /// The rejection does not reveal which services are registered.
  static net::verdict nobody(const net::hello& x) {
    return {false,
            "no service '" + x.purpose + "' of job '" + x.job
              + "' is registered",
            {too_early},
            {}};
  }

  mutable std::mutex lock_;
  std::map<key, std::shared_ptr<entry>> entries_;
};

door::door(const net::endpoint_options& options)
  : door{std::make_shared<net::endpoint>(options)} {}

door::door(std::shared_ptr<net::endpoint> it)
  : desk_{std::make_shared<desk>()}, it_{std::move(it)} {}

/// Sets the endpoint's handler. Until the first registration dialers wait.
void door::open() {
  it_->on_dialed([by = desk_](const net::hello& x) { return by->decide(x); },
                 [by = desk_](const net::hello& x, net::arrived&& what) {
                   by->take(x, std::move(what));
                 },
                 [by = desk_](const net::hello& x) { by->gone(x); });
}

door::~door() = default;

std::unique_ptr<door::guest> door::serve(const std::string& job,
                                         const std::string& purpose, host by) {
  struct served final : guest {
    served(std::shared_ptr<desk> at, desk::key what, host&& by)
      : at{std::move(at)},
        what{std::move(what)},
        entry{this->at->add(this->what, std::move(by))} {}
    ~served() override { at->remove(what, *entry); }

    std::shared_ptr<desk> at;
    desk::key what;
    std::shared_ptr<desk::entry> entry;
  };
  auto guest =
    std::make_unique<served>(desk_, desk::key{job, purpose}, std::move(by));
  std::call_once(opened_, [this] { open(); });
  return guest;
}

} // namespace troupe
