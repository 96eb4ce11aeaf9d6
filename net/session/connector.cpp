#include "troupe/net/session/connector.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

namespace troupe::net {

namespace {

using namespace std::chrono_literals;
constexpr auto longest_backoff = 200ms;

std::string text_of(int error) {
  return std::generic_category().message(error);
}

} // namespace

dialing::dialing(std::shared_ptr<io_loop> by, order what, ended then)
  : loop_{std::move(by)},
    what_{std::move(what)},
    then_{std::move(then)},
    deadline_{*loop_, [this] { on_deadline(); }},
    pause_{*loop_, [this] { find(); }},
    attempt_{*loop_, [this] { missed("it did not answer in time"); }} {}

void dialing::start() {
  deadline_.in(what_.deadline - clock::now());
  find();
}

void dialing::find() {
  if (is_numeric(what_.where))
    return found(resolve(what_.where));
  // Name resolution may block and cannot be cancelled, so it runs on a thread
  // of its own.
  auto ask = [where = what_.where, loop = std::weak_ptr{loop_},
              self = weak_from_this()] {
    auto all = resolve(where);
    if (const auto on = loop.lock())
      on->post([self, all = std::move(all)]() mutable {
        if (const auto x = self.lock())
          x->found(std::move(all));
      });
  };
  try {
    std::thread{std::move(ask)}.detach();
  } catch (const std::system_error& e) {
    found({{}, e.what()});
  }
}

void dialing::found(places&& all) {
  if (!then_)
    return;
  places_ = std::move(all);
  next_ = 0;
  if (places_.found.empty()) {
    problem_ = places_.problem;
    return again();
  }
  for (const auto& x : places_.found)
    if (what_.loopback_only && !x.is_loopback())
      return fail("it is not a loopback address, and there are no credentials: "
                  "give a secret or certificates");
  try_next();
}

void dialing::try_next() {
  if (next_ == places_.found.size())
    return again();
  socket_ = start_connecting(places_.found[next_++]);
  if (!socket_)
    return missed(text_of(errno));
  attempt_.in(what_.patience);
  try {
    watch_ = std::make_unique<watch>(*loop_, socket_.get(),
                                     [this] { on_connected(); });
  } catch (const std::exception& e) {
    return missed(e.what());
  }
  watch_->until_writable();
}

void dialing::on_connected() {
  if (const auto error = connected(socket_.get()); error != 0) {
    heard_ = heard_ || error == ECONNREFUSED || error == ECONNRESET;
    return missed(text_of(error));
  }
  watch_.reset();
  try {
    meet();
  } catch (const std::exception& e) {
    missed(e.what());
  }
}

void dialing::meet() {
  meeting_ = std::make_unique<meeting>(
    *loop_, what_.wrap(socket_.release()),
    handshake{handshake::side::dialer, what_.secret, random_nonce(), what_.who},
    nullptr, [this] { on_met(); });
  meeting_->start();
}

void dialing::on_met() {
  const auto met = std::move(meeting_);
  if (met->taken()) {
    endpoint::dialed x;
    x.peer = met->how().peer();
    x.note = met->how().note();
    return end(std::move(x), met->take_stream());
  }
  heard_ = true; // it has closed the connection, at least
  if (met->how().now() == handshake::state::refused) {
    endpoint::dialed x;
    x.refused = true;
    x.why = said(met->why());
    x.peer = met->how().peer();
    x.note = met->how().note();
    return end(std::move(x));
  }
  if (met->hopeless())
    return fail(met->why());
  met_problem_ = met->why()
                 + (!met->heard()          ? " before it sent any data; it may "
                                             "require other credentials"
                    : what_.secret.empty() ? ""
                                           : "; it may use another secret");
  missed(met_problem_);
}

/// Ends this attempt and tries the next address.
void dialing::missed(std::string why) {
  attempt_.off();
  watch_.reset();
  meeting_.reset();
  socket_ = descriptor{};
  problem_ = std::move(why);
  try_next();
}

void dialing::again() {
  pause_.in(backoff_);
  backoff_ = std::min<std::chrono::milliseconds>(2 * backoff_, longest_backoff);
}

std::string dialing::said(const std::string& why) const {
  return to_string(what_.where) + ": " + why;
}

void dialing::on_deadline() {
  endpoint::dialed x;
  x.how = heard_ ? ending::dead : ending::silent;
  auto what = problem_;
  if (!met_problem_.empty() && met_problem_ != what)
    what += "; before that " + met_problem_;
  x.why = said("not reached in time" + (what.empty() ? "" : " (" + what + ")"));
  end(std::move(x));
}

void dialing::fail(const std::string& why) {
  endpoint::dialed x;
  x.why = said(why);
  end(std::move(x));
}

void dialing::give_up(const std::string& why) {
  fail(why);
}

void dialing::end(endpoint::dialed&& x, std::unique_ptr<stream> it) {
  if (!then_)
    return;
  const auto self = shared_from_this(); // the callback drops the owner's one
  watch_.reset();
  meeting_.reset();
  socket_ = descriptor{};
  const auto then = std::exchange(then_, nullptr);
  then(std::move(x), std::move(it));
}

} // namespace troupe::net
