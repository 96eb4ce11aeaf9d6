#include "troupe/actors/node/lane_acceptor.hpp"

#include <stdexcept>
#include <utility>

namespace troupe {

lane_acceptor::lane_acceptor(const options& acceptor_options)
  : options_{acceptor_options} {}

lane_acceptor::~lane_acceptor() {
  waiting_.clear(); // ends the waits for streams
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
    const std::lock_guard hold{lock_};
    threads_.remove_if([](const auto& x) { return x.finished(); });
    if (threads_.size() >= options_.max_lanes)
      throw std::runtime_error{"the node has " + std::to_string(threads_.size())
                               + " lanes already"};
    const auto [entry, is_new] = waiting_.try_emplace(connection_key);
    if (!is_new)
      throw std::runtime_error{"the client has announced this lane before"};
    threads_.emplace_back(connection, lane, entry->second.get_future(),
                          options_.thread);
  }
  connection->on_closed([weak = weak_from_this(), connection_key](
                          net::close_reason, const std::string&) {
    if (const auto self = weak.lock())
      self->forget(connection_key);
  });
  return lane;
}

void lane_acceptor::forget(const key& connection_key) {
  const std::lock_guard hold{lock_};
  waiting_.erase(connection_key);
}

bool lane_acceptor::expects(const net::hello& peer) const {
  const std::lock_guard hold{lock_};
  return waiting_.contains({peer.incarnation, peer.payload});
}

void lane_acceptor::accept(const net::hello& peer,
                           std::unique_ptr<net::stream> stream) {
  const std::lock_guard hold{lock_};
  const auto it = waiting_.find({peer.incarnation, peer.payload});
  if (it == waiting_.end())
    return;
  it->second.set_value(std::move(stream));
  waiting_.erase(it);
}

} // namespace troupe
