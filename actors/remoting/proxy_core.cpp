#include "troupe/actors/remoting/proxy_core.hpp"

#include <caf/exit_reason.hpp>

#include <utility>

namespace troupe {

proxy_core::~proxy_core() {
  if (!end_)
    end_ = caf::make_error(ec::peer_lost, std::string{"the proxy ended"});
  for (auto& [tag, x] : calls_)
    x.promise.deliver(end_);
  if (out_)
    out_->close("the proxy ended");
}

void proxy_core::open(std::shared_ptr<net::link> out,
                      const proxy_options& options) {
  out_ = std::move(out);
  options_ = options;
}

std::uint32_t proxy_core::patience_ms() const {
  return static_cast<std::uint32_t>(options_.patience.count());
}

caf::error proxy_core::check_size(std::size_t bytes, net::priority how) const {
  const auto most = out_->limits().of(how);
  if (bytes <= most)
    return {};
  return caf::make_error(ec::invalid, "a message of " + std::to_string(bytes)
                                        + " bytes; the limit of the channel is "
                                        + std::to_string(most) + " bytes");
}

/// @returns true if the channel accepted the frame.
bool proxy_core::post(net::frame_kind kind, net::priority how,
                      std::vector<std::byte>&& payload) {
  const bool taken =
    out_->post({kind, how, options_.epoch, last_tag_ + 1, std::move(payload)});
  last_tag_ += taken;
  return taken;
}

caf::error proxy_core::post_fact(net::writer&& x, net::priority how,
                                 time_point now) {
  auto payload = std::move(x).bytes();
  if (auto problem = check_size(payload.size(), how))
    return problem;
  // A frame that the channel rejects is lost. If the message may enter the
  // backlog, a copy is kept.
  if (backlog_.empty()) {
    auto copy = must_deliver() ? payload : std::vector<std::byte>{};
    if (post(net::frame_kind::fact, how, std::move(payload)))
      return {};
    payload = std::move(copy);
    retry_at_ = now + options_.retry_interval;
  }
  if (backlog_.size() >= options_.backlog)
    return caf::make_error(ec::busy, must_deliver()
                                       ? "the channel accepts no more frames, "
                                         "and "
                                           + std::to_string(backlog_.size())
                                           + " messages are waiting already"
                                       : std::string{"the channel accepts no "
                                                     "more frames"});
  backlog_.push_back({how, std::move(payload)});
  return {};
}

void proxy_core::post_request(net::writer&& x, net::priority how,
                              time_point now, caf::response_promise promise,
                              answer_reader read) {
  if (calls_.size() >= options_.window)
    return promise.deliver(caf::make_error(
      ec::busy, std::to_string(calls_.size()) + " requests are open already"));
  auto payload = std::move(x).bytes();
  if (auto problem = check_size(payload.size(), how))
    return promise.deliver(std::move(problem));
  if (!backlog_.empty() // a request must not overtake oneway messages
      || !post(net::frame_kind::request, how, std::move(payload)))
    return promise.deliver(caf::make_error(
      ec::busy, std::string{"the channel accepts no more frames"}));
  calls_.emplace(last_tag_,
                 call{std::move(promise), read, now + options_.patience});
}

caf::error proxy_core::refuse(std::string_view type) {
  return caf::make_error(ec::invalid, "a " + std::string{type}
                                        + " cannot leave its process");
}

caf::error proxy_core::hear(const net::frame& x) {
  out_->consumed(x.priority);
  if (x.epoch != options_.epoch)
    return {}; // a frame of another view
  switch (x.kind) {
    case net::frame_kind::reply:
    case net::frame_kind::failure:
      end_ = answer(x);
      break;
    case net::frame_kind::gone:
      return leave(x);
    case net::frame_kind::fact:
    case net::frame_kind::request:
      end_ = caf::make_error(ec::protocol,
                             std::string{"a proxy received a request or a "
                                         "oneway message"});
  }
  return end_;
}

/// Completes the request that a response or an error belongs to.
/// @returns an error if the peer violated the protocol.
caf::error proxy_core::answer(const net::frame& x) {
  const auto it = calls_.find(x.tag);
  if (it == calls_.end())
    return {}; // late or duplicate
  auto call = std::move(it->second);
  calls_.erase(it);
  net::reader from{x.payload};
  if (x.kind == net::frame_kind::reply) {
    call.read(call.promise, from);
  } else if (wire::failure_note note; !from(note.code, note.text).finish()) {
    call.promise.deliver(wire::error_of(note));
  }
  const auto fault = from.finish();
  if (!fault)
    return {};
  auto why =
    caf::make_error(ec::protocol, "malformed response: " + to_string(*fault));
  call.promise.deliver(why);
  return why;
}

caf::error proxy_core::leave(const net::frame& x) {
  wire::failure_note note;
  if (const auto fault = net::decode(x.payload, note.code, note.text))
    note = {ec::protocol, "malformed termination: " + to_string(*fault)};
  end_ = wire::error_of(note);
  if (note.code == ec::cancelled) // the role was stopped on purpose
    return caf::exit_reason::user_shutdown;
  return end_;
}

caf::error proxy_core::hear(const link_ended& x) {
  end_ = caf::make_error(x.code, x.why);
  return end_;
}

void proxy_core::expire(time_point now) {
  while (!backlog_.empty()) {
    auto& first = backlog_.front();
    if (!post(net::frame_kind::fact, first.how, std::vector{first.payload})) {
      retry_at_ = now + options_.retry_interval;
      break;
    }
    backlog_.pop_front();
  }
  while (!calls_.empty() && calls_.begin()->second.deadline <= now) {
    auto x = std::move(calls_.begin()->second);
    calls_.erase(calls_.begin());
    x.promise.deliver(
      caf::make_error(ec::stalled, "no response within "
                                     + std::to_string(patience_ms()) + " ms"));
  }
}

std::optional<proxy_core::time_point> proxy_core::next_deadline() const {
  std::optional<time_point> due;
  if (!calls_.empty())
    due = calls_.begin()->second.deadline;
  if (!backlog_.empty() && (!due || retry_at_ < *due))
    due = retry_at_;
  return due;
}

} // namespace troupe
