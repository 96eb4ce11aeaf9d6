#include "troupe/actors/node/lane_acceptor.hpp"

#include <stdexcept>
#include <utility>

namespace troupe {

lane_acceptor::lane_acceptor(const options& acceptor_options)
  : options_{acceptor_options} {}

lane_acceptor::~lane_acceptor() {
  const std::lock_guard hold{connections_->lock};
  connections_->waiting.clear(); // ends the waits for streams
}

std::shared_ptr<connection_lane>
lane_acceptor::open(const std::shared_ptr<net::connection>& connection) {
  const auto& peer = connection->peer();
  if (peer.payload.empty())
    return nullptr;
  const key connection_key{peer.incarnation, peer.payload};
  auto lane = std::make_shared<connection_lane>(
    connection_lane::options{{0, options_.incarnation, peer.incarnation}});
  {
    const std::lock_guard hold{connections_->lock};
    threads_.remove_if([](const auto& x) { return x.finished(); });
    if (threads_.size() >= options_.max_lanes)
      throw std::runtime_error{"the node has " + std::to_string(threads_.size())
                               + " lanes already"};
    if (!connections_->announced.insert(connection_key).second)
      throw std::runtime_error{"another connection has announced this lane"};
  }
  connection->on_closed([table = connections_, connection_key](
                          net::close_reason, const std::string&) {
    table->forget(connection_key);
  });
  const std::lock_guard hold{connections_->lock};
  if (!connections_->announced.contains(connection_key))
    throw std::runtime_error{"the connection has ended"};
  threads_.emplace_back(connection, lane,
                        connections_->waiting[connection_key].get_future(),
                        options_.thread);
  return lane;
}

void lane_acceptor::connection_table::forget(const key& connection_key) {
  const std::lock_guard hold{lock};
  announced.erase(connection_key);
  waiting.erase(connection_key);
}

bool lane_acceptor::expects(const net::hello& peer) const {
  const std::lock_guard hold{connections_->lock};
  return connections_->waiting.contains({peer.incarnation, peer.payload});
}

void lane_acceptor::accept(const net::hello& peer,
                           std::unique_ptr<net::stream> stream) {
  const std::lock_guard hold{connections_->lock};
  const auto it = connections_->waiting.find({peer.incarnation, peer.payload});
  if (it == connections_->waiting.end())
    return;
  it->second.set_value(std::move(stream));
  connections_->waiting.erase(it);
}

} // namespace troupe
