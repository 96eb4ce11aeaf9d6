#include "troupe/actors/membership/roles/candidate_admission.hpp"

#include "troupe/actors/group/world.hpp"
#include "troupe/actors/membership/peers/join_hello.hpp"
#include "troupe/actors/membership/roles/rejection_text.hpp"
#include "troupe/net/base/text.hpp"

#include <stdexcept>
#include <tuple>

namespace troupe {

namespace {

/// Maximum time in which a process that asks to join must answer a member that
/// opens lanes to it.
constexpr std::chrono::milliseconds candidate_answer_timeout{2000};
/// Maximum number of addresses of candidates about which a warning is logged.
constexpr std::size_t max_warned_candidates = 64;

constexpr const char* not_at_present = "the process cannot join at present";

} // namespace

candidate_admission::candidate_admission(const membership_context& context,
                                         peer_connections& connections,
                                         member_role& members)
  : context_{context}, connections_{connections}, members_{members} {}

// -- connections of candidates ------------------------------------------------

/// A member accepts a candidate if no other process has its task, and if it has
/// the configuration of the job.
void candidate_admission::on(const membership_event::candidate_accepted& x) {
  const auto& [connection, request] = x;
  const auto task = request.task;
  const auto& options = context_.options();
  if (task >= context_.task_count() || task == options.self.task)
    return connection->close("the job has no such task to take");
  if (!members_.has_begun() || is_task_used(task))
    return connection->close( // it tries again
      is_taken_elsewhere(request) ? describe(
        membership::rejection{membership::rejection::kind::taken, task, {}, {}},
        options.processes.names)
                                  : not_at_present);
  if (const auto reason = reason_to_reject(request); !reason.empty())
    return reject(*connection, *connection->open(membership_channel), 1,
                  reason);
  if (task > options.self.task || !options.dial_again)
    return admit(x);
  if (!dialed_.try_emplace(task, x).second)
    return connection->close(not_at_present);
  dial(request);
}

/// @returns why the process cannot join this job. Empty: it can.
std::string candidate_admission::reason_to_reject(
  const membership::join_request& request) const {
  auto& table = context_.peers();
  const auto rejection = table.get([&] { return table.log.rejection; });
  if (!rejection.empty())
    return "no process can join this job: " + rejection;
  const auto& options = context_.options();
  if (const auto why = membership::difference(request.task, request.config,
                                              options.self.config))
    return describe(*why, options.processes.names);
  if (request.host.empty() || request.port == 0 || request.replicas == 0
      || request.replicas > max_replicas)
    return "its request is malformed";
  return {};
}

/// True if a process of this task is connected, or its connection is being made
/// again.
bool candidate_admission::is_task_used(std::uint32_t task) const {
  return connections_.contains(task) || members_.losses().awaits_task(task);
}

/// True if the task has a connected process in the view, at another address
/// than the request. Such a process is a spare, or a predecessor whose loss
/// this process has not noticed yet. A process at the same address is the
/// predecessor of the one that asks, and may be ending.
bool candidate_admission::is_taken_elsewhere(
  const membership::join_request& request) const {
  const auto* const peer = connections_.find(request.task);
  if (!members_.has_begun() || !peer)
    return false;
  auto& table = context_.peers();
  return table.get([&] {
    const auto* const holder = table.view.find(request.task);
    return holder && holder->incarnation == peer->incarnation
           && std::tie(holder->host, holder->port)
                != std::tie(request.host, request.port);
  });
}

/// From here on the candidate can join, so the launcher must know of it. A
/// candidate that this process cannot reach is not reported. After a report of
/// a process that the launcher has not started, it is no witness any more.
void candidate_admission::admit(const membership_event::candidate_accepted& x) {
  const auto& launcher = context_.options().launcher;
  const auto& hello = x.connection->peer();
  if (launcher
      && !launcher->report_candidate(connections_.watch(hello)
                                       ? read_process_identity(hello)
                                       : net::process_identity{}))
    return x.connection->close(not_at_present);
  auto& made =
    connections_.add({x.request.task, x.request.incarnation}, x.connection);
  made.request = x.request;
  connections_.send_view(x.request.task);
}

// -- dials --------------------------------------------------------------------

/// A process opens its lanes to those with a lower task. If this one cannot
/// reach the candidate, no view with it could be entered, so the candidate must
/// answer before it learns the job.
void candidate_admission::dial(const membership::join_request& candidate) {
  membership_event::candidate_dialed dialed{
    {candidate.task, candidate.incarnation}, {}};
  try {
    context_.options().dial_again({candidate.task,
                                   candidate.incarnation,
                                   candidate.host,
                                   candidate.port,
                                   {},
                                   0},
                                  candidate_answer_timeout,
                                  context_.on_dialed(dialed));
  } catch (const std::invalid_argument& e) { // the candidate sent the address
    dialed.result = std::make_shared<net::endpoint::dial_result>();
    dialed.result->reason = e.what();
    context_.tell(std::move(dialed));
  }
}

void candidate_admission::on(const membership_event::candidate_dialed& x) {
  const auto found = dialed_.find(x.process.task);
  if (found == dialed_.end()
      || found->second.request.incarnation != x.process.incarnation)
    return;
  const auto candidate = std::move(found->second);
  dialed_.erase(found);
  const auto& attempt = *x.result;
  // It rejects the hello of a member whose connection it has not lost.
  const bool has_answered =
    (attempt.connection || attempt.rejected)
    && attempt.peer.incarnation == x.process.incarnation;
  if (!has_answered)
    return close_unreachable(candidate, attempt.reason);
  if (is_task_used(x.process.task))
    return candidate.connection->close(not_at_present);
  admit(candidate);
}

/// @param why the attempt to dial has failed. Empty: another process answers.
void candidate_admission::close_unreachable(
  const membership_event::candidate_accepted& candidate,
  const std::string& why) {
  const auto& request = candidate.request;
  const auto reason = net::printable(
    context_.own_name() + " cannot connect to " + context_.name_of(request.task)
      + " at " + to_string(net::address{request.host, request.port}) + ": "
      + (why.empty() ? "another process answers" : why),
    net::max_sentence_bytes);
  if (context_.options().log && unreachable_.size() < max_warned_candidates
      && unreachable_.insert({request.host, request.port}).second)
    context_.log().warn(reason + "; the process cannot join");
  candidate.connection->close(reason);
}

// -- connected candidates -----------------------------------------------------

void candidate_admission::on_join(const peer_connection& sender) {
  if (!sender.request)
    return; // a member of the first view
  const auto& request = *sender.request;
  bool is_deferred = false;
  auto& table = context_.peers();
  table.update([&] {
    auto& deferral = table.deferral;
    is_deferred = deferral.active;
    if (is_deferred)
      deferral.waiting.try_emplace(request.incarnation);
  });
  if (is_deferred)
    return; // it asks again
  members_.on_join({sender.task,
                    request.incarnation,
                    request.host,
                    request.port,
                    {},
                    request.replicas});
}

void candidate_admission::reject(peer_connection& candidate,
                                 const std::string& text) {
  reject(*candidate.connection, *candidate.control, ++candidate.last_tag, text);
}

/// @param tag number of the message on the channel.
void candidate_admission::reject(net::connection& connection,
                                 net::channel& control, std::uint64_t tag,
                                 const std::string& text) {
  const auto reason = net::printable(text, net::max_sentence_bytes);
  peer_connections::post(control, tag,
                         {membership::message_kind::reject, reason, {}});
  connection.close(reason);
  context_.log().info(context_.own_name()
                      + " rejected a process that asked to join: " + reason);
}

void candidate_admission::close_all(const std::string& reason) {
  for (const auto& [task, x] : dialed_)
    x.connection->close(reason);
}

} // namespace troupe
