#include "troupe/actors/node/spare_acceptor.hpp"

#include "troupe/net/base/address.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/session/service_router.hpp"

#include <algorithm>
#include <list>
#include <mutex>
#include <utility>

namespace troupe {

void waiting_spare::end(spare_outcome outcome) const {
  net::frame message;
  message.payload = net::encode(outcome);
  channel->post(std::move(message));
  connection->close(outcome.text);
}

void waiting_spare::disconnect(const std::string& reason) const {
  connection->close(reason);
}

namespace {

net::endpoint_options endpoint_config(const spare_acceptor::options& options) {
  net::endpoint_options out;
  out.listen = net::parse_address(options.listen);
  out.connection = options.connection;
  out.log = options.log;
  return out;
}

/// The spares that wait. Callbacks of connections refer to it weakly, because
/// connections may end after the acceptor, and the queue owns connections.
class spare_queue {
public:
  explicit spare_queue(const spare_acceptor::options& options)
    : options_{options} {}

  /// Decides whether the client keeps a spare.
  net::hello_response authorize(const net::hello& peer) const {
    const auto reject = [](const std::string& why, bool may_pass = false) {
      return net::hello_response{
        false, why, may_pass ? try_again() : std::vector<std::byte>{}, {}};
    };
    std::string fault;
    const auto spare = decode_description(peer.payload, fault);
    if (!spare)
      return reject(fault);
    if (fault = fault_of(*spare); !fault.empty())
      return reject(fault);
    if (options_.fault_of)
      if (fault = options_.fault_of(*spare); !fault.empty())
        return reject(fault);
    const std::lock_guard hold{lock_};
    const auto same = find(spare->address);
    if (same != spares_.end() && same->incarnation != peer.incarnation)
      return reject("another process waits as a spare at " + spare->address,
                    true);
    if (same == spares_.end() && spares_.size() >= options_.max_spares)
      return reject(std::to_string(spares_.size())
                      + " spares wait, and the client keeps no more",
                    true);
    net::hello_response out;
    out.responder.incarnation = options_.incarnation;
    return out;
  }

  /// Adds the spare of a connection, in the place of an earlier connection of
  /// the same process.
  static void accept(const std::shared_ptr<spare_queue>& self,
                     const net::hello& peer,
                     const std::shared_ptr<net::connection>& connection) {
    std::string fault;
    const auto description = decode_description(peer.payload, fault);
    if (!description)
      return connection->close(fault);
    std::shared_ptr<net::connection> replaced;
    {
      const std::lock_guard hold{self->lock_};
      if (const auto same = self->find(description->address);
          same != self->spares_.end()) {
        replaced = same->connection;
        self->spares_.erase(same);
      }
      self->spares_.push_back({*description, net::printable(peer.name),
                               peer.incarnation, connection,
                               connection->open(spare_channel)});
    }
    if (replaced)
      replaced->close("the node has announced itself again");
    self->log("node " + description->address + " waits as a spare");
    connection->on_closed(
      [queue = std::weak_ptr{self},
       ended = connection.get()](net::close_reason, const std::string& reason) {
        if (const auto it = queue.lock())
          it->drop(ended, reason);
      });
  }

  std::vector<std::string> addresses(const spare_filter& filter) const {
    const std::lock_guard hold{lock_};
    std::vector<std::string> out;
    for (const auto& one : spares_)
      if (!filter || filter(one))
        out.push_back(one.description.address);
    return out;
  }

  std::optional<waiting_spare> take(const spare_filter& filter) {
    const std::lock_guard hold{lock_};
    const auto it =
      filter ? std::ranges::find_if(spares_, filter) : spares_.begin();
    if (it == spares_.end())
      return std::nullopt;
    auto out = std::move(*it);
    spares_.erase(it);
    return out;
  }

private:
  std::list<waiting_spare>::const_iterator
  find(const std::string& address) const {
    return std::ranges::find_if(spares_, [&](const waiting_spare& x) {
      return x.description.address == address;
    });
  }

  /// Removes the spare whose connection has ended. No effect if it does not
  /// wait any more.
  void drop(const net::connection* ended, const std::string& reason) {
    std::string address;
    {
      const std::lock_guard hold{lock_};
      const auto it =
        std::ranges::find(spares_, ended, [](const waiting_spare& x) {
          return static_cast<const net::connection*>(x.connection.get());
        });
      if (it == spares_.end())
        return;
      address = it->description.address;
      spares_.erase(it);
    }
    log("the spare " + address
        + " does not wait any more: " + net::printable(reason));
  }

  void log(const std::string& text) const {
    if (options_.log)
      options_.log(net::severity::info, text);
  }

  const spare_acceptor::options options_;
  mutable std::mutex lock_; // guards `spares_`
  std::list<waiting_spare> spares_;
};

} // namespace

struct spare_acceptor::impl {
  explicit impl(const options& acceptor_options)
    : queue{std::make_shared<spare_queue>(acceptor_options)},
      router{endpoint_config(acceptor_options)},
      registration{router.serve(
        {}, spare_purpose,
        {[by = queue](const net::hello& peer) { return by->authorize(peer); },
         [by = queue](const net::hello& peer,
                      net::accepted_connection&& accepted) {
           if (const auto* connection =
                 std::get_if<std::shared_ptr<net::connection>>(&accepted))
             spare_queue::accept(by, peer, *connection);
         }})},
      address{to_string(router.endpoint().advertised_address())} {
    router.open();
  }

  const std::shared_ptr<spare_queue> queue;
  service_router router;
  const std::unique_ptr<service_router::registration> registration;
  const std::string address;
};

spare_acceptor::spare_acceptor(const options& acceptor_options)
  : impl_{std::make_unique<impl>(acceptor_options)} {}

spare_acceptor::~spare_acceptor() = default;

const std::string& spare_acceptor::address() const {
  return impl_->address;
}

std::vector<std::string>
spare_acceptor::waiting(const spare_filter& filter) const {
  return impl_->queue->addresses(filter);
}

std::optional<waiting_spare> spare_acceptor::take(const spare_filter& filter) {
  return impl_->queue->take(filter);
}

void spare_acceptor::release(const std::string& text) {
  while (const auto spare = take())
    spare->end({spare_end::released, text});
}

} // namespace troupe
