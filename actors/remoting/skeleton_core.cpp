#include "troupe/actors/remoting/skeleton_core.hpp"

#include <caf/exit_reason.hpp>

#include <algorithm>
#include <utility>

namespace troupe {

bool seen_tags::add(std::uint64_t tag) {
  if (tag > newest_) {
    if (tag - newest_ >= window)
      seen_.reset();
    else
      for (auto i = newest_ + 1; i < tag; ++i)
        seen_.reset(i % window);
    newest_ = tag;
  } else if (newest_ - tag >= window || seen_[tag % window]) {
    return false;
  }
  seen_.set(tag % window);
  return true;
}

gateway_core::~gateway_core() {
  if (out_)
    out_->close("the skeleton ended");
}

void gateway_core::open(std::shared_ptr<net::link> out,
                        const gateway_options& options) {
  out_ = std::move(out);
  options_ = options;
}

std::chrono::milliseconds gateway_core::patience(std::uint32_t asked_ms) const {
  return std::min(options_.patience, std::chrono::milliseconds{asked_ms});
}

bool gateway_core::admit(const net::frame& x) {
  const bool fresh = seen_[static_cast<std::size_t>(x.priority)].add(x.tag);
  const bool looked_at = fresh && x.epoch == options_.epoch;
  if (!looked_at || x.kind != net::frame_kind::fact)
    out_->consumed(x.priority);
  if (looked_at || !fresh)
    return looked_at;
  if (x.kind == net::frame_kind::request) {
    net::writer to;
    to(ec::superseded, "view " + std::to_string(x.epoch)
                         + ", but the current view is "
                         + std::to_string(options_.epoch));
    out_->post({net::frame_kind::failure, net::priority::control, x.epoch,
                x.tag, std::move(to).bytes()});
  }
  return false;
}

/// True if unread messages use at least a quarter of the credits. With fewer
/// the peer can still send, so a receipt would cost more than it gains.
bool gateway_core::is_due(net::priority how) const {
  return unread_[static_cast<std::size_t>(how)]
         >= std::max<std::size_t>(out_->credits(how) / 4, 1);
}

bool gateway_core::handed_on(net::priority how) {
  ++unread_[static_cast<std::size_t>(how)];
  return !asking_ && is_due(how);
}

void gateway_core::begin_receipt() {
  asking_ = true;
  asked_ = unread_;
}

bool gateway_core::on_receipt() {
  asking_ = false;
  for (const auto how : {net::priority::control, net::priority::bulk}) {
    const auto i = static_cast<std::size_t>(how);
    unread_[i] -= asked_[i];
    for (auto left = std::exchange(asked_[i], 0); left > 0; --left)
      out_->consumed(how);
  }
  return is_due(net::priority::control) || is_due(net::priority::bulk);
}

bool gateway_core::begin(const net::frame& x) {
  const auto room = open_.size() < options_.window;
  open_.insert(x.tag);
  if (!room)
    fail(x.tag, {ec::busy, "the role has " + std::to_string(options_.window)
                             + " open requests already"});
  return room;
}

void gateway_core::succeed(std::uint64_t tag, net::writer&& answer,
                           net::priority how) {
  if (open_.erase(tag) > 0)
    post(net::frame_kind::reply, how, tag, std::move(answer));
}

void gateway_core::fail(std::uint64_t tag, const wire::failure_note& why) {
  if (open_.erase(tag) == 0)
    return;
  net::writer to;
  to(why.code, why.text);
  post(net::frame_kind::failure, net::priority::control, tag, std::move(to));
}

/// A response that the channel does not accept is lost; the proxy's timeout
/// then fails the request.
void gateway_core::post(net::frame_kind kind, net::priority how,
                        std::uint64_t tag, net::writer&& x) {
  auto payload = std::move(x).bytes();
  if (const auto most = out_->limits().of(how); payload.size() > most) {
    net::writer to;
    to(ec::invalid, "a response of " + std::to_string(payload.size())
                      + " bytes; the limit of the channel is "
                      + std::to_string(most) + " bytes");
    kind = net::frame_kind::failure;
    how = net::priority::control;
    payload = std::move(to).bytes();
  }
  out_->post({kind, how, options_.epoch, tag, std::move(payload)});
}

void gateway_core::say_gone(const wire::failure_note& why) {
  while (!open_.empty())
    fail(*open_.begin(), why);
  net::writer to;
  to(why.code, why.text);
  post(net::frame_kind::gone, net::priority::control, 0, std::move(to));
}

caf::error gateway_core::accuse(const net::frame& x, const std::string& why) {
  const wire::failure_note note{ec::protocol, why};
  if (x.kind == net::frame_kind::request) {
    open_.insert(x.tag);
    fail(x.tag, note);
  }
  say_gone(note);
  return wire::error_of(note);
}

caf::error gateway_core::on_role_lost(const caf::error& why,
                                      caf::actor_system& sys) {
  if (!why || why == caf::exit_reason::user_shutdown) {
    say_gone({ec::cancelled, "the role was stopped"});
    return why;
  }
  say_gone({ec::peer_lost, "the role ended: " + sys.render(why)});
  return caf::make_error(ec::peer_lost, "the role ended: " + sys.render(why));
}

} // namespace troupe
