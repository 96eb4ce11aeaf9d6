#include "troupe/actors/membership/actor/membership_host.hpp"

#include "troupe/actors/group/world.hpp"
#include "troupe/actors/membership/roles/leader_role.hpp"
#include "troupe/actors/membership/roles/participant_role.hpp"
#include "troupe/actors/membership/view_changes/view_change_frame.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/net/codec/codec.hpp"

#include <utility>

namespace troupe {

membership_host::membership_host(membership_context::pointer self,
                                 const membership_options& options)
  : context_{self, options} {
  auto& table = context_.peers();
  table.update([&] { table.own_incarnation = options.self.incarnation; });
  role_ = make_role();
  role_->start();
}

membership_host::~membership_host() {
  close_all("the job has ended");
}

std::unique_ptr<process_role> membership_host::make_role() {
  if (context_.options().joins) {
    auto made =
      std::make_unique<candidate_role>(context_, connections_, members_);
    candidate_ = made.get();
    return made;
  }
  if (context_.is_leader())
    return std::make_unique<leader_role>(context_, connections_, members_);
  return std::make_unique<participant_role>(context_, connections_, members_);
}

/// The candidate belongs to a view.
void membership_host::join(const view_change::numbered_proposal& decision) {
  const auto leader = std::exchange(candidate_, nullptr)->leader();
  role_ = std::make_unique<participant_role>(context_, connections_, members_,
                                             decision.proposal.next, leader);
  members_.begin(decision);
}

// -- connections --------------------------------------------------------------

void membership_host::on(const membership_event::received& x) {
  auto* const sender = connections_.find_connection(x.task, x.connection);
  if (!sender)
    return;
  switch (x.channel) {
    case view_change_channel:
      return on_view_change(*sender, *x.frame);
    case result_channel:
      return results_.on(*sender, *x.frame);
    case packet_report_channel:
      return packet_reports_.on(*sender, *x.frame);
    default:
      return on_membership(*sender, *x.frame);
  }
}

void membership_host::on_membership(peer_connection& sender,
                                    const net::frame& frame) {
  sender.control->consumed(frame.priority);
  membership::message message;
  if (const auto fault =
        net::decode(frame.payload, message.kind, message.text, message.view))
    return sender.connection->close("a membership message is malformed: "
                                    + to_string(*fault));
  message.text = net::printable(message.text, net::max_sentence_bytes);
  if (message.kind == membership::message_kind::join)
    admission_.on_join(sender);
  else
    role_->on(sender.id(), message);
}

void membership_host::on_view_change(peer_connection& sender,
                                     const net::frame& frame) {
  sender.view_changes->consumed(frame.priority);
  view_change::message message;
  const auto problem = read_view_change(frame, context_.task_count(), message);
  if (!problem.empty())
    return sender.connection->close(problem);
  if (!candidate_)
    members_.on(sender.id(), message);
  else if (candidate_->joins_with(sender.id(), message))
    join(message.proposals.front());
}

void membership_host::on(const membership_event::closed& x) {
  const auto ended = connections_.remove(x);
  if (!ended)
    return;
  results_.note_answer(x.task);
  if (!candidate_)
    losses().on_closed(*ended, x);
  role_->on_closed(*ended, x);
}

void membership_host::on(const membership_event::packet_reports_due& x) {
  context_.tell_later(packet_reporter::interval, x);
  recovery_stop_.on_interval(context_.now());
  packet_reports_.on_interval();
}

void membership_host::close_all(const std::string& reason) {
  connections_.close_all(reason);
  admission_.close_all(reason);
}

// -- the role -----------------------------------------------------------------

void membership_host::on_lost(const view_change::process_id& process,
                              const lost_connections::cut_connection& how) {
  role_->on_lost(process, how);
}

void membership_host::on_reconnected(const view_change::process_id& process) {
  role_->on_reconnected(process);
}

void membership_host::on_installed(const membership::view& next) {
  role_->on_installed(next);
}

void membership_host::leave(bool job_goes_on) {
  members_.end();
  auto& table = context_.peers();
  table.update([&] { table.no_next_view = true; });
  // The job goes on without a leader that has left it before.
  role_->leave(job_goes_on || table.get([&] { return table.has_left; }));
}

} // namespace troupe
