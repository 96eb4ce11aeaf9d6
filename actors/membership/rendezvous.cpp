#include "troupe/actors/core/close_code.hpp"
#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/net/base/text.hpp"

#include <algorithm>

// Rendezvous: how a process joins its job. It sends its hello, gets the view,
// opens streams and then lanes, and passes the start barrier.

namespace troupe {

using namespace std::chrono_literals;

namespace {

/// Delay before a process dials the leader again. A process dials again if the
/// leader rejected it because the leader did not serve the job yet.
constexpr auto retry_delay = 20ms;

/// Maximum delay before the leader logs which processes are missing.
constexpr std::chrono::milliseconds first_report_delay{5000};

} // namespace

void cluster::impl::join() {
  deadline_ = peer_table::clock::now() + options.start_timeout;
  open_router();
  rejected_before_ = router_->endpoint().rejections().count;
  register_services();
  try {
    if (options.task == 0)
      wait_for_members();
    else
      join_leader();
    dial_peers();
    open_lanes();
    start_barrier();
  } catch (...) {
    joined_ = true; // so that `leave` notifies the connected processes
    leave();
    throw;
  }
  joined_ = true;
}

// -- steps of the start-up ----------------------------------------------------

/// Sends the text to all connected processes and throws it as `job_error`.
/// @pre the lock of the peer table is not held.
void cluster::impl::fail(ec code, const std::string& text) {
  const auto reason =
    net::printable(text, net::max_sentence_bytes); // may come from a peer
  const std::lock_guard hold{peers_->lock};
  for (auto& x : peers_->entries)
    peers_->send(x, {membership_message_kind::abort, reason, {}});
  throw job_error(code, reason);
}

/// Returns a text about the connections that were rejected as unauthenticated
/// since `join` began. Empty: there were none.
std::string cluster::impl::rejected_text() const {
  const auto rejected = router_->endpoint().rejections();
  const auto count = rejected.count - rejected_before_;
  if (count == 0)
    return "";
  return (count == 1 ? "; one connection was closed, from "
                     : "; " + std::to_string(count)
                         + " connections were closed, the last from ")
         + rejected.last;
}

void cluster::impl::wait_for_members() {
  std::unique_lock hold{peers_->lock};
  const auto has_joined = [this](std::size_t task) {
    const auto& x = peers_->entries[task];
    return task == 0 || (x.connection && !x.closed);
  };
  const auto all_joined = [&] {
    for (std::size_t i = 0; i < peers_->entries.size(); ++i)
      if (!has_joined(i))
        return false;
    return peers_->admission_state->complete();
  };
  const auto describe_missing = [&] {
    std::vector<std::string> missing;
    std::string addresses, rejected;
    for (std::uint32_t i = 0; i < peers_->entries.size(); ++i)
      if (!has_joined(i)) {
        missing.push_back(options.names[i]);
        addresses +=
          (addresses.empty() ? "" : ", ") + to_string(options.addresses[i]);
        if (const auto why = peers_->rejections.find(i);
            why != peers_->rejections.end())
          rejected += "; rejected: " + why->second;
      }
    return rendezvous::join_words(missing) + " did not join (" + addresses + ")"
           + (rejected.empty() ? rejected_text() : rejected);
  };
  if (!peers_->wait(hold,
                    peer_table::clock::now()
                      + std::min(first_report_delay, options.start_timeout / 4),
                    all_joined)
      && peer_table::clock::now() < deadline_ && options.log)
    options.log(net::severity::warning,
                "job '" + options.job + "' waits: " + describe_missing());
  if (!peers_->wait(hold, deadline_, all_joined)) {
    const auto why = describe_missing();
    hold.unlock();
    fail(ec::stalled, "job '" + options.job + "' cannot begin: for "
                        + std::to_string(options.start_timeout.count()) + " ms "
                        + why);
  }
  view_ = peers_->admission_state->close();
  peers_->view = view_;
  for (auto& x : peers_->entries)
    peers_->send(x, {membership_message_kind::view, {}, view_});
}

void cluster::impl::join_leader() {
  const auto& address = options.addresses[0];
  const auto& leader = options.names[0];
  std::string rejection; // reason of the last rejection
  for (;;) {
    auto done = std::make_shared<std::optional<net::endpoint::dial_result>>();
    const auto remaining =
      std::max(std::chrono::duration_cast<std::chrono::milliseconds>(
                 deadline_ - peer_table::clock::now()),
               1ms);
    router_->endpoint().dial(
      address, make_hello("control"), remaining,
      [in = peers_, done](net::endpoint::dial_result&& x) {
        const std::lock_guard hold{in->lock};
        *done = std::move(x);
        in->changed.notify_all();
      });
    std::unique_lock hold{peers_->lock};
    const bool completed =
      peers_->wait(hold, deadline_ + 5s, [&] { return done->has_value(); });
    if (!completed) {
      hold.unlock();
      fail(ec::unreachable,
           leader + " at " + to_string(address) + " did not answer");
    }
    auto& attempt = **done;
    if (attempt.connection) {
      if (auto* it = std::get_if<std::shared_ptr<net::connection>>(
            &*attempt.connection)) {
        auto wire = std::move(*it);
        hold.unlock();
        attach_peer(peers_, 0, attempt.peer.incarnation, std::move(wire));
        break;
      }
    }
    const bool may_retry =
      attempt.rejected && is_retryable(attempt.payload)
      && peer_table::clock::now() + retry_delay < deadline_;
    if (!may_retry) {
      hold.unlock();
      const auto leader_text = leader + " at " + to_string(address);
      if (attempt.rejected)
        rejection = attempt.reason;
      if (!rejection.empty()) // it explains more than a timeout
        fail(ec::refused,
             leader + " rejected " + own_name() + ": " + rejection);
      fail(ec::stalled, own_name() + " could not reach " + leader_text + " for "
                          + std::to_string(options.start_timeout.count())
                          + " ms: " + attempt.reason);
    }
    rejection = attempt.reason;
    peers_->wait(hold, peer_table::clock::now() + retry_delay,
                 [] { return false; });
  }
  std::unique_lock hold{peers_->lock};
  // This process waits longer than the leader's start timeout. When that
  // timeout ends, the leader sends an abort that names the missing processes.
  const auto view_deadline =
    deadline_ + options.start_timeout + options.shutdown_timeout;
  peers_->wait(hold, view_deadline, [this] {
    return peers_->view || peers_->abort_reason || peers_->entries[0].closed;
  });
  throw_if_failed(hold);
  if (peers_->view)
    view_ = *peers_->view;
  hold.unlock();
  if (view_.members.empty())
    fail(ec::stalled, leader + " did not send the members of the job in time");
  if (view_.members.size() != processes())
    fail(ec::protocol, leader + " has a job of "
                         + std::to_string(view_.members.size()) + " processes, "
                         + own_name() + " expects "
                         + std::to_string(processes()));
  deadline_ =
    std::max(deadline_, peer_table::clock::now() + options.start_timeout / 2);
}

/// Throws if the job can no longer begin: a process has aborted the start, or
/// was lost.
void cluster::impl::throw_if_failed(std::unique_lock<std::mutex>& hold) {
  if (peers_->abort_reason) {
    const auto why = *peers_->abort_reason;
    hold.unlock();
    fail(ec::stalled, why);
  }
  for (std::uint32_t i = 0; i < peers_->entries.size(); ++i)
    if (const auto end = peers_->entries[i].closed) {
      hold.unlock();
      fail(close_code(end->first),
           options.names[i] + " was lost during the start: " + end->second);
    }
}

void cluster::impl::dial_peers() {
  for (std::uint32_t i = 0; i < options.task; ++i)
    for (const auto* purpose : lane_purposes)
      dial_peer(i, purpose);
}

void cluster::impl::dial_peer(std::uint32_t peer, const std::string& purpose) {
  const auto& member = view_.members[peer];
  const auto remaining =
    std::max(std::chrono::duration_cast<std::chrono::milliseconds>(
               deadline_ - peer_table::clock::now()),
             1ms);
  const peer_table::stream_id id{peer, member.incarnation, purpose};
  router_->endpoint().dial(
    {member.host, member.port}, make_hello(purpose), remaining,
    [peers = peers_, id, dialer = own_name(),
     name = options.names[peer]](net::endpoint::dial_result&& attempt) {
      const std::lock_guard hold{peers->lock};
      auto* stream =
        attempt.connection
          ? std::get_if<std::unique_ptr<net::stream>>(&*attempt.connection)
          : nullptr;
      if (stream)
        peers->streams[id] = std::move(*stream);
      else if (!peers->abort_reason)
        peers->abort_reason = dialer + " could not connect to " + name
                              + " for stream " + std::get<2>(id) + ": "
                              + attempt.reason;
      peers->changed.notify_all();
    });
}

void cluster::impl::start_barrier() {
  std::unique_lock hold{peers_->lock};
  const auto deadline = deadline_ + 5s;
  if (options.task == 0) {
    const auto not_ready = [this] {
      std::vector<std::string> out;
      for (std::size_t i = 1; i < peers_->entries.size(); ++i)
        if (!peers_->entries[i].is_ready)
          out.push_back(options.names[i]);
      return out;
    };
    peers_->wait(hold, deadline,
                 [&] { return not_ready().empty() || peers_->failed(); });
    throw_if_failed(hold);
    if (const auto who = not_ready(); !who.empty()) {
      hold.unlock();
      fail(ec::stalled, rendezvous::join_words(who)
                          + " did not connect to all other processes in time");
    }
    for (auto& x : peers_->entries)
      peers_->send(x, {membership_message_kind::start, {}, {}});
    peers_->started = true;
    return;
  }
  peers_->send(peers_->entries[0], {membership_message_kind::ready, {}, {}});
  peers_->wait(hold, deadline + options.start_timeout,
               [this] { return peers_->started || peers_->failed(); });
  if (peers_->started)
    return;
  throw_if_failed(hold);
  hold.unlock();
  fail(ec::stalled,
       options.names[0] + " did not report in time that all are ready");
}

} // namespace troupe
