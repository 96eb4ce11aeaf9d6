#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/net/base/text.hpp"

#include <algorithm>

// Rendezvous: how a process joins its job. The steps are the hello, the view,
// the streams, the lanes and the start barrier.

namespace troupe {

using namespace std::chrono_literals;

namespace {

ec code_of(net::ending x) {
  return x == net::ending::silent ? ec::unreachable
         : x == net::ending::dead ? ec::peer_lost
                                  : ec::protocol;
}

/// Delay before a process dials the leader again after a rejection because the
/// leader did not serve the job yet.
constexpr auto pause = 20ms;

/// Maximum delay before the leader logs which processes are missing.
constexpr std::chrono::milliseconds soon{5000};

} // namespace

void cluster::inside::join() {
  deadline_ = hall::clock::now() + options.patience;
  open_door();
  strangers_before_ = door_->endpoint().turned_away().count;
  serve();
  try {
    if (options.index == 0)
      gather_all();
    else
      dial_leader();
    dial_peers();
    open_lanes();
    start_together();
  } catch (...) {
    joined_ = true; // so that `leave` tells the connected processes
    leave();
    throw;
  }
  joined_ = true;
}

// -- steps of the start-up ----------------------------------------------------

/// Sends the reason to all connected processes and throws it.
/// @pre the lock of the peer table is not held.
void cluster::inside::fail(ec code, const std::string& text) {
  const auto why =
    net::printable(text, net::max_sentence_bytes); // a peer may have sent it
  const std::lock_guard hold{hall_->lock};
  for (auto& x : hall_->seats)
    hall_->say(x, {word::give_up, why, {}});
  throw failure(code, why);
}

/// Text about the connections that were rejected as unauthenticated since this
/// job began to wait. Empty if there were none.
std::string cluster::inside::strangers() const {
  const auto all = door_->endpoint().turned_away();
  const auto count = all.count - strangers_before_;
  if (count == 0)
    return "";
  return (count == 1 ? "; one connection was closed, from "
                     : "; " + std::to_string(count)
                         + " connections were closed, the last from ")
         + all.last;
}

void cluster::inside::gather_all() {
  std::unique_lock hold{hall_->lock};
  const auto here = [this](std::size_t task) {
    const auto& x = hall_->seats[task];
    return task == 0 || (x.wire && !x.end);
  };
  const auto all = [&] {
    for (std::size_t i = 0; i < hall_->seats.size(); ++i)
      if (!here(i))
        return false;
    return hall_->who->complete();
  };
  const auto waited_for = [&] {
    std::vector<std::string> missing;
    std::string places, refused;
    for (std::uint32_t i = 0; i < hall_->seats.size(); ++i)
      if (!here(i)) {
        missing.push_back(options.names[i]);
        places +=
          (places.empty() ? "" : ", ") + to_string(options.addresses[i]);
        if (const auto why = hall_->turned_away.find(i);
            why != hall_->turned_away.end())
          refused += "; rejected: " + why->second;
      }
    return roster::listed(missing) + " did not join (" + places + ")"
           + (refused.empty() ? strangers() : refused);
  };
  if (!hall_->wait(
        hold, hall::clock::now() + std::min(soon, options.patience / 4), all)
      && hall::clock::now() < deadline_ && options.log)
    options.log(net::severity::warning,
                "job '" + options.job + "' waits: " + waited_for());
  if (!hall_->wait(hold, deadline_, all)) {
    const auto why = waited_for();
    hold.unlock();
    fail(ec::stalled, "job '" + options.job + "' cannot begin: for "
                        + std::to_string(options.patience.count()) + " ms "
                        + why);
  }
  table_ = hall_->who->members();
  hall_->table = table_;
  for (auto& x : hall_->seats)
    hall_->say(x, {word::table, {}, table_});
}

void cluster::inside::dial_leader() {
  const auto& where = options.addresses[0];
  const auto& leader = options.names[0];
  std::string refusal; // the last rejection
  for (;;) {
    auto done = std::make_shared<std::optional<net::endpoint::dialed>>();
    const auto left =
      std::max(std::chrono::duration_cast<std::chrono::milliseconds>(
                 deadline_ - hall::clock::now()),
               1ms);
    door_->endpoint().dial(where, greeting("control"), left,
                           [in = hall_, done](net::endpoint::dialed&& x) {
                             const std::lock_guard hold{in->lock};
                             *done = std::move(x);
                             in->news.notify_all();
                           });
    std::unique_lock hold{hall_->lock};
    const bool told =
      hall_->wait(hold, deadline_ + 5s, [&] { return done->has_value(); });
    if (!told) {
      hold.unlock();
      fail(ec::unreachable,
           leader + " at " + to_string(where) + " did not answer");
    }
    auto& x = **done;
    if (x.it) {
      if (auto* it = std::get_if<std::shared_ptr<net::connection>>(&*x.it)) {
        auto wire = std::move(*it);
        hold.unlock();
        settle(hall_, 0, x.peer.incarnation, std::move(wire));
        break;
      }
    }
    const bool early = x.refused && is_too_early(x.note)
                       && hall::clock::now() + pause < deadline_;
    if (!early) {
      hold.unlock();
      const auto at = leader + " at " + to_string(where);
      if (x.refused)
        refusal = x.why;
      if (!refusal.empty()) // explains more than a timeout does
        fail(ec::refused, leader + " rejected " + me() + ": " + refusal);
      fail(ec::stalled, me() + " could not reach " + at + " for "
                          + std::to_string(options.patience.count())
                          + " ms: " + x.why);
    }
    refusal = x.why;
    hall_->wait(hold, hall::clock::now() + pause, [] { return false; });
  }
  std::unique_lock hold{hall_->lock};
  // The leader names the missing processes when its own start timeout ends.
  const auto till = deadline_ + options.patience + options.farewell;
  hall_->wait(hold, till, [this] {
    return hall_->table || hall_->given_up || hall_->seats[0].end;
  });
  check_news(hold);
  if (hall_->table)
    table_ = *hall_->table;
  hold.unlock();
  if (table_.members.empty())
    fail(ec::stalled, leader + " did not send the members of the job in time");
  if (table_.members.size() != processes())
    fail(ec::protocol,
         leader + " has a job of " + std::to_string(table_.members.size())
           + " processes, " + me() + " expects " + std::to_string(processes()));
  deadline_ = std::max(deadline_, hall::clock::now() + options.patience / 2);
}

/// Throws if the job can no longer begin: a process has aborted the start, or
/// was lost.
void cluster::inside::check_news(std::unique_lock<std::mutex>& hold) {
  if (hall_->given_up) {
    const auto why = *hall_->given_up;
    hold.unlock();
    fail(ec::stalled, why);
  }
  for (std::uint32_t i = 0; i < hall_->seats.size(); ++i)
    if (const auto end = hall_->seats[i].end) {
      hold.unlock();
      fail(code_of(end->first),
           options.names[i] + " was lost during the start: " + end->second);
    }
}

void cluster::inside::dial_peers() {
  for (std::uint32_t i = 0; i < options.index; ++i)
    for (const auto* purpose : {"parts", "sums"})
      dial_peer(i, purpose);
}

void cluster::inside::dial_peer(std::uint32_t peer,
                                const std::string& purpose) {
  const auto& to = table_.members[peer];
  const auto left =
    std::max(std::chrono::duration_cast<std::chrono::milliseconds>(
               deadline_ - hall::clock::now()),
             1ms);
  const hall::stream_key key{peer, to.incarnation, purpose};
  door_->endpoint().dial(
    {to.host, to.port}, greeting(purpose), left,
    [in = hall_, key, me = me(),
     name = options.names[peer]](net::endpoint::dialed&& x) {
      const std::lock_guard hold{in->lock};
      auto* it =
        x.it ? std::get_if<std::unique_ptr<net::stream>>(&*x.it) : nullptr;
      if (it)
        in->streams[key] = std::move(*it);
      else if (!in->given_up)
        in->given_up = me + " could not connect to " + name + " for stream "
                       + std::get<2>(key) + ": " + x.why;
      in->news.notify_all();
    });
}

void cluster::inside::start_together() {
  std::unique_lock hold{hall_->lock};
  const auto till = deadline_ + 5s;
  if (options.index == 0) {
    const auto slow = [this] {
      std::vector<std::string> out;
      for (std::size_t i = 1; i < hall_->seats.size(); ++i)
        if (!hall_->seats[i].ready)
          out.push_back(options.names[i]);
      return out;
    };
    hall_->wait(hold, till, [&] { return slow().empty() || hall_->failed(); });
    check_news(hold);
    if (const auto who = slow(); !who.empty()) {
      hold.unlock();
      fail(ec::stalled, roster::listed(who)
                          + " did not connect to all other processes in time");
    }
    for (auto& x : hall_->seats)
      hall_->say(x, {word::go, {}, {}});
    hall_->go = true;
    return;
  }
  hall_->say(hall_->seats[0], {word::ready, {}, {}});
  hall_->wait(hold, till + options.patience,
              [this] { return hall_->go || hall_->failed(); });
  if (hall_->go)
    return;
  check_news(hold);
  hold.unlock();
  fail(ec::stalled,
       options.names[0] + " did not report in time that all are ready");
}

} // namespace troupe
