#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/actors/membership/elastic_group/lane_failure.hpp"
#include "troupe/actors/membership/peers/join_hello.hpp"
#include "troupe/actors/membership/spare.hpp"
#include "troupe/actors/membership/vacancy_finder.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/net/io/socket_address.hpp"

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

// How a process joins its job. The membership actor agrees on the view. Then
// this thread opens streams and lanes to all processes of the view. At last the
// membership actor passes the start barrier.

namespace troupe {

using namespace std::chrono_literals;

namespace {

/// Maximum time in which a spare becomes known to the members. Then it may have
/// another task, or another process has that one.
constexpr std::chrono::milliseconds spare_join_timeout{10'000};

/// Maximum time that a process waits for others before it looks their hosts up.
constexpr std::chrono::milliseconds max_silent_wait{2000};

struct named_host {
  std::string name; ///< Name of the process.
  net::address address;
};

/// @pre the lock of the table is held.
bool has_view_or_failure(const peer_table& peers) {
  return peers.view.view_id > 0 || peers.failed;
}

/// Notes in the table which hosts are unknown here. A lookup may block for
/// longer than the start, so it runs on a thread of its own, for which no other
/// one waits.
void note_unknown_hosts(const std::shared_ptr<peer_table>& peers,
                        const std::vector<named_host>& hosts,
                        const std::shared_ptr<bool>& have_ended) {
  for (const auto& one : hosts) {
    if (peers->get([&] { return has_view_or_failure(*peers); }))
      break;
    const auto resolved = net::resolve(one.address);
    if (resolved.found.empty())
      peers->update([&] {
        peers->unknown_hosts += "; " + one.name + " at "
                                + to_string(one.address) + ": "
                                + resolved.problem;
      });
  }
  peers->update([&] { *have_ended = true; });
}

} // namespace

void cluster::impl::join() {
  if (options.any_task)
    return join_any_task();
  if (options.join_running_job && options.spare_timeout > 0ms)
    wait_as_spare(options.listen.value_or(options.addresses[options.task]),
                  own_name(), options.spare_timeout, options.log);
  open_router();
  join_task(options.start_timeout);
}

/// Waits until a task is vacant and joins with that task. If another process is
/// sooner, it waits again.
void cluster::impl::join_any_task() {
  open_router();
  vacancy_finder vacancies{
    local_runtime.system(),
    router_,
    {.job = options.job,
     .addresses = options.addresses,
     .names = options.names,
     .hello =
       make_join_hello(options.job, "spare", "vacancies", own_join_request()),
     .timeout = options.spare_timeout,
     .end_timeout = std::max(options.connection.heartbeat_timeout, 1000ms),
     .log = options.log}};
  std::string failure;
  for (;;) {
    const auto found = vacancies.next(failure);
    take_task(found.task);
    try {
      join_task(std::min(options.start_timeout, spare_join_timeout),
                found.view);
      // Not before: other spares may have tried to take the task too.
      if (options.log)
        options.log(net::severity::warning,
                    "the job had no " + own_name()
                      + " any more; this process has taken its task");
      return;
    } catch (const job_error& e) {
      if (e.code == ec::refused && vacancies.is_vacant(found.task))
        throw;
      failure = e.what();
      if (options.log)
        options.log(net::severity::info,
                    "this spare goes on waiting: " + failure);
    }
    reset();
  }
}

void cluster::impl::take_task(std::uint32_t task) {
  options.task = task;
  if (options.recorder)
    options.recorder->set_identity(
      {options.job, options.names, options.task, incarnation_, 0});
}

/// Prepares another attempt to join after one has failed.
void cluster::impl::reset() {
  if (status_service_)
    caf::anon_send_exit(std::exchange(status_service_, nullptr),
                        caf::exit_reason::user_shutdown);
  if (membership_)
    end_membership();
  make_peer_table();
}

/// @param known_view view that lacks the task of this process, if others may
///                   take it too. Its id is zero: they may not.
void cluster::impl::join_task(std::chrono::milliseconds timeout,
                              const membership::view& known_view) {
  deadline_ = peer_table::clock::now() + timeout;
  try {
    // Served first: a process that knows the view opens its streams at once,
    // and the router of a node is open already.
    register_stream_services();
    begin_membership(timeout, known_view);
    register_admission();
    router_->open();
    wait_for_view();
    if (options.join_running_job) {
      wait_for_membership([this] { return peers_->started; });
    } else {
      if (!options.start_failure.empty())
        fail(ec::refused, own_name() + " cannot take part in the job: "
                            + options.start_failure);
      lanes_ = open_lanes(view_, deadline_);
      wait_for_start();
    }
  } catch (...) {
    joined_ = true; // so that `leave` notifies the connected processes
    leave();
    throw;
  }
  joined_ = true;
}

// -- steps of the start-up ----------------------------------------------------

void cluster::impl::begin_membership(std::chrono::milliseconds timeout,
                                     const membership::view& known_view) {
  membership_options settings;
  settings.processes = named();
  settings.self = own_join_request();
  settings.joins = options.join_running_job;
  settings.start_timeout = timeout;
  settings.shutdown_timeout = options.shutdown_timeout;
  settings.peers = peers_;
  settings.dial_leader =
    [router = std::weak_ptr{router_}, leader = options.addresses[0],
     hello = make_hello("control")](
      std::chrono::milliseconds timeout,
      std::function<void(net::endpoint::dial_result &&)> on_done) {
      if (const auto it = router.lock())
        it->endpoint().dial(leader, hello, timeout, std::move(on_done));
    };
  settings.dial_peer =
    [router = std::weak_ptr{router_}, hello = make_hello("peer")](
      const membership::member& peer, std::chrono::milliseconds timeout,
      membership_options::dial_callback on_done) {
      if (const auto it = router.lock())
        it->endpoint().dial({peer.host, peer.port}, hello, timeout,
                            std::move(on_done));
    };
  settings.dial_again = [router = std::weak_ptr{router_}, job = options.job,
                         name = own_name(), request = own_join_request(),
                         peers =
                           peers_](const membership::member& peer,
                                   std::chrono::milliseconds timeout,
                                   membership_options::dial_callback on_done) {
    const auto view_id = peers->get([&] { return peers->view.view_id; });
    if (const auto it = router.lock())
      it->endpoint().dial({peer.host, peer.port},
                          make_reconnect_hello(job, name, request, view_id,
                                               peer.incarnation,
                                               net::own_process_identity()),
                          timeout, std::move(on_done));
  };
  settings.reconnect_timeout = options.connection.heartbeat_timeout;
  settings.dial_to_join =
    [router = std::weak_ptr{router_}, addresses = options.addresses,
     hello = make_hello("join")](std::uint32_t task,
                                 const membership::member* member,
                                 std::chrono::milliseconds timeout,
                                 membership_options::dial_callback on_done) {
      if (const auto it = router.lock())
        it->endpoint().dial(member ? net::address{member->host, member->port}
                                   : addresses[task],
                            hello, timeout, std::move(on_done));
    };
  settings.known_view = known_view;
  settings.describe_rejected_peers =
    [router = std::weak_ptr{router_},
     before = router_->endpoint().rejections().count] {
      const auto it = router.lock();
      if (!it)
        return std::string{};
      const auto rejected = it->endpoint().rejections();
      const auto count = rejected.count - before;
      if (count == 0)
        return std::string{};
      return (count == 1 ? "; one connection was closed, from "
                         : "; " + std::to_string(count)
                             + " connections were closed, the last from ")
             + rejected.last;
    };
  settings.log = options.log;
  settings.launcher = options.launcher;
  membership_ = spawn_membership(local_runtime.system(), settings);
  // Threads of this process wait for what it writes.
  caf::actor_cast<caf::actor>(membership_)
    ->attach_functor([peers = peers_](const caf::error& reason) {
      if (!reason || reason == caf::exit_reason::user_shutdown)
        return;
      peers->update([&] {
        peers->no_next_view = true;
        if (!peers->failed)
          peers->failed = {.code = ec::stalled,
                           .cause = "the membership actor of this process has "
                                    "ended: "
                                    + to_string(reason)};
      });
    });
}

/// The processes of the job for texts. They host no replica yet.
named_processes cluster::impl::named() const {
  named_processes out;
  out.names = options.names;
  out.job = options.job;
  for (const auto& x : options.addresses)
    out.addresses.push_back(to_string(x));
  out.self = options.task;
  return out;
}

/// Aborts the start in all processes, and throws the text as `job_error`.
/// @pre the lock of the peer table is not held.
void cluster::impl::fail(ec code, const std::string& text) {
  const auto reason = abort_start(code, text);
  throw to_job_error({.code = code, .cause = reason}, named());
}

/// The same, as a `lane_failure`.
/// @param missing tasks of the members to which no lanes could be opened.
void cluster::impl::fail_lanes(ec code, const std::string& text,
                               std::vector<std::uint32_t> missing) {
  throw lane_failure{code, abort_start(code, text), std::move(missing)};
}

/// Aborts the start in all processes. No effect after the start.
/// @returns the text, which may come from a peer, in printable characters.
std::string cluster::impl::abort_start(ec code, const std::string& text) {
  auto reason = net::printable(text, net::max_sentence_bytes);
  caf::anon_send(membership_, membership_event::aborted{code, reason});
  return reason;
}

/// Throws if the job can no longer begin. @pre `hold` is locked.
void cluster::impl::throw_if_failed(std::unique_lock<std::mutex>& hold) {
  if (!peers_->failed)
    return;
  const auto why = *peers_->failed;
  hold.unlock();
  throw to_job_error(why, named());
}

/// Waits until the membership actor reports that `done` holds or that the job
/// cannot begin. The actor has timeouts of its own, which end earlier.
template <class F>
void cluster::impl::wait_for_membership(F&& done) {
  const auto deadline = peer_table::clock::now() + 3 * options.start_timeout
                        + options.shutdown_timeout + 10s;
  std::unique_lock hold{peers_->lock};
  peers_->wait(hold, deadline, [&] { return done() || peers_->failed; });
  throw_if_failed(hold);
  if (done())
    return;
  hold.unlock();
  fail(ec::stalled,
       "the membership actor of " + own_name() + " does not answer in time");
}

/// While this process waits, says which hosts that it waits for are unknown.
void cluster::impl::find_unknown_hosts() {
  std::unique_lock hold{peers_->lock};
  peers_->wait(hold,
               peer_table::clock::now()
                 + std::min<std::chrono::milliseconds>(
                   max_silent_wait, options.start_timeout / 8),
               [this] { return has_view_or_failure(*peers_); });
  std::vector<named_host> hosts;
  // Participants wait for the leader only.
  const auto last = options.task > 0 ? 1 : processes();
  for (std::uint32_t task = 0; task < last; ++task)
    if (task != options.task && !peers_->entries[task].connection)
      hosts.push_back({options.names[task], options.addresses[task]});
  const auto have_ended = std::make_shared<bool>(false);
  try {
    std::thread{note_unknown_hosts, peers_, hosts, have_ended}.detach();
  } catch (const std::system_error&) { // the texts are without them
    return;
  }
  std::string logged;
  const auto is_over = [&] {
    return has_view_or_failure(*peers_) || *have_ended;
  };
  do {
    peers_->wait(hold, deadline_,
                 [&] { return is_over() || peers_->unknown_hosts != logged; });
    const auto text = peers_->unknown_hosts.substr(logged.size());
    logged = peers_->unknown_hosts;
    if (options.log && !text.empty()) {
      hold.unlock();
      options.log(net::severity::warning,
                  own_name() + " waits for a host that is unknown here: "
                    + text.substr(2)); // without "; "
      hold.lock();
    }
  } while (!is_over() && peer_table::clock::now() < deadline_);
}

void cluster::impl::wait_for_view() {
  if (!options.join_running_job)
    find_unknown_hosts();
  wait_for_membership([this] { return peers_->view.view_id > 0; });
  const std::lock_guard hold{peers_->lock};
  view_ = peers_->view;
  if (options.task > 0)
    deadline_ =
      std::max(deadline_, peer_table::clock::now() + options.start_timeout / 2);
}

void cluster::impl::wait_for_start() {
  caf::anon_send(membership_, membership_event::lanes_open{});
  wait_for_membership([this] { return peers_->started; });
}

} // namespace troupe
