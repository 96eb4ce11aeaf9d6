#include "troupe/actors/remoting/channel_mailbox.hpp"

#include "troupe/actors/core/close_code.hpp"

#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

namespace troupe {

namespace {

class mailbox_listener final : public net::channel_listener {
public:
  explicit mailbox_listener(const caf::actor_addr& receiver)
    : receiver_{receiver} {}

  void on_frame(net::frame&& frame) override {
    if (const auto receiver = caf::actor_cast<caf::actor>(receiver_))
      caf::anon_send(receiver, std::move(frame));
  }
  void on_closed(net::close_reason cause, const std::string& reason) override {
    if (const auto receiver = caf::actor_cast<caf::actor>(receiver_))
      caf::anon_send(receiver, channel_closed{close_code(cause), reason});
  }

private:
  caf::actor_addr receiver_;
};

} // namespace

std::shared_ptr<net::channel_listener>
deliver_to_mailbox(const caf::actor_addr& receiver) {
  return std::make_shared<mailbox_listener>(receiver);
}

tensor_channel::listener
deliver_tensors_to_mailbox(const caf::actor_addr& receiver) {
  return [receiver](tensor_channel::event&& event) {
    if (const auto target = caf::actor_cast<caf::actor>(receiver))
      std::visit([&](auto&& x) { caf::anon_send(target, std::move(x)); },
                 std::move(event));
  };
}

} // namespace troupe
