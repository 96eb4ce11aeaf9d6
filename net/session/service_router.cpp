#include "troupe/net/session/service_router.hpp"

#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

constexpr std::byte not_registered{1};

} // namespace

bool is_retryable(const std::vector<std::byte>& payload) {
  return payload == std::vector<std::byte>{not_registered};
}

/// Maps a job and a purpose to the registered service.
class service_router::routing_table {
public:
  using key = std::pair<std::string, std::string>; ///< The job and the purpose.

  struct route {
    std::mutex lock; ///< Held while the handler is called.
    service_handler handler;
    bool active = true;
  };

  std::shared_ptr<route> add(const key& service_key,
                             service_handler&& handler) {
    const auto added = std::make_shared<route>();
    added->handler = std::move(handler);
    const std::lock_guard hold{lock_};
    if (!routes_.emplace(service_key, added).second)
      throw service_exists("'" + service_key.second + "' of job '"
                           + service_key.first + "' is registered already");
    return added;
  }

  void remove(const key& service_key, route& removed) {
    {
      const std::lock_guard hold{lock_};
      routes_.erase(service_key);
    }
    // waits until a running call of the handler has returned
    const std::lock_guard hold{removed.lock};
    removed.active = false;
    removed.handler = {};
  }

  net::hello_response authorize(const net::hello& peer) {
    const auto found = find(peer);
    if (!found)
      return no_such_service(peer);
    const std::lock_guard hold{found->lock};
    if (!found->active)
      return no_such_service(peer);
    return found->handler.authorize(peer);
  }

  void accepted(const net::hello& peer, net::accepted_connection&& connection) {
    if (const auto found = find(peer)) {
      const std::lock_guard hold{found->lock};
      if (found->active)
        found->handler.accepted(peer, std::move(connection));
    }
  }

private:
  std::shared_ptr<route> find(const net::hello& peer) const {
    const std::lock_guard hold{lock_};
    const auto found = routes_.find({peer.job, peer.purpose});
    return found == routes_.end() ? nullptr : found->second;
  }

  /// Returns the rejection if no service is registered. It does not reveal
  /// which services are registered.
  static net::hello_response no_such_service(const net::hello& peer) {
    return {false,
            "no service '" + peer.purpose + "' of job '" + peer.job
              + "' is registered",
            {not_registered},
            {}};
  }

  mutable std::mutex lock_;
  std::map<key, std::shared_ptr<route>> routes_;
};

service_router::service_router(const net::endpoint_options& options)
  : service_router{std::make_shared<net::endpoint>(options)} {}

service_router::service_router(std::shared_ptr<net::endpoint> shared_endpoint)
  : routing_table_{std::make_shared<routing_table>()},
    endpoint_{std::move(shared_endpoint)} {}

void service_router::open() {
  std::call_once(opened_, [this] {
    endpoint_->serve(
      [by = routing_table_](const net::hello& x) { return by->authorize(x); },
      [by = routing_table_](const net::hello& x,
                            net::accepted_connection&& what) {
        by->accepted(x, std::move(what));
      });
  });
}

service_router::~service_router() = default;

std::unique_ptr<service_router::registration>
service_router::serve(const std::string& job, const std::string& purpose,
                      service_handler handler) {
  struct scoped_registration final : registration {
    scoped_registration(std::shared_ptr<routing_table> at,
                        routing_table::key what, service_handler&& by)
      : table{std::move(at)},
        service_key{std::move(what)},
        active_route{this->table->add(this->service_key, std::move(by))} {}
    ~scoped_registration() override {
      table->remove(service_key, *active_route);
    }

    std::shared_ptr<routing_table> table;
    routing_table::key service_key;
    std::shared_ptr<routing_table::route> active_route;
  };
  return std::make_unique<scoped_registration>(
    routing_table_, routing_table::key{job, purpose}, std::move(handler));
}

} // namespace troupe
