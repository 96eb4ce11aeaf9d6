#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/net/base/text.hpp"

#include <algorithm>

// How a process gets into its job: hello, table, streams, lanes, go.

namespace troupe {

using namespace std::chrono_literals;

namespace {

ec code_of(net::ending x) {
  return x == net::ending::silent ? ec::unreachable
         : x == net::ending::dead ? ec::peer_lost
                                  : ec::protocol;
}

/// How long somebody who came too early waits before he asks again.
constexpr auto pause = 20ms;

/// When a leader says for the first time whom he awaits, at the latest.
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
    joined_ = true; // say goodbye to whoever is there
    leave();
    throw;
  }
  joined_ = true;
}

// -- the steps of it ----------------------------------------------------------

/// Tells the others too. @pre the hall is not locked.
void cluster::inside::fail(ec code, const std::string& text) {
  const auto why =
    net::printable(text, net::max_sentence_bytes); // it may be a peer's
  const std::lock_guard hold{hall_->lock};
  for (auto& x : hall_->seats)
    hall_->say(x, {word::give_up, why, {}});
  throw failure(code, why);
}

/// How many came since this job awaits its members who are none.
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
          refused += "; refused: " + why->second;
      }
    return roster::listed(missing) + " did not come (" + places + ")"
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
  std::string refusal; // the last that may be taken back
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
      if (!refusal.empty()) // says more than that the time is over
        fail(ec::refused, leader + " refused " + me() + ": " + refusal);
      fail(ec::stalled, me() + " could not reach " + at + " for "
                          + std::to_string(options.patience.count())
                          + " ms: " + x.why);
    }
    refusal = x.why;
    hall_->wait(hold, hall::clock::now() + pause, [] { return false; });
  }
  std::unique_lock hold{hall_->lock};
  // the leader says who is missing when his own patience ends
  const auto till = deadline_ + options.patience + options.farewell;
  hall_->wait(hold, till, [this] {
    return hall_->table || hall_->given_up || hall_->seats[0].end;
  });
  check_news(hold);
  if (hall_->table)
    table_ = *hall_->table;
  hold.unlock();
  if (table_.members.empty())
    fail(ec::stalled, leader + " did not say who is in the job");
  if (table_.members.size() != processes())
    fail(ec::protocol,
         leader + " has a job of " + std::to_string(table_.members.size())
           + " processes, " + me() + " one of " + std::to_string(processes()));
  deadline_ = std::max(deadline_, hall::clock::now() + options.patience / 2);
}

/// Throws if nothing can come of it any more.
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
           options.names[i] + " was lost while the job began: " + end->second);
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
        in->given_up = me + " could not dial " + name + " for its "
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
      fail(ec::stalled,
           roster::listed(who) + " could not speak to all others in time");
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
  fail(ec::stalled, options.names[0] + " did not say that all are ready");
}

} // namespace troupe
