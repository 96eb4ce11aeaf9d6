#include "troupe/actors/remoting/channel_mailbox.hpp"

#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

namespace troupe {

namespace {

ec code_of(net::ending x) {
  switch (x) {
    case net::ending::dead:
      return ec::peer_lost;
    case net::ending::silent:
      return ec::unreachable;
    case net::ending::broken:
      break;
  }
  return ec::protocol;
}

class mail_listener final : public net::link_listener {
public:
  explicit mail_listener(const caf::actor_addr& who) : who_{who} {}

  void heard(net::frame&& x) override {
    if (const auto to = caf::actor_cast<caf::actor>(who_))
      caf::anon_send(to, std::move(x));
  }
  void ended(net::ending how, const std::string& why) override {
    if (const auto to = caf::actor_cast<caf::actor>(who_))
      caf::anon_send(to, link_ended{code_of(how), why});
  }

private:
  caf::actor_addr who_;
};

} // namespace

std::shared_ptr<net::link_listener> mail_to(const caf::actor_addr& who) {
  return std::make_shared<mail_listener>(who);
}

} // namespace troupe
