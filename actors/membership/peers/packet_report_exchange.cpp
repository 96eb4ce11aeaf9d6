#include "troupe/actors/membership/peers/packet_report_exchange.hpp"

#include "troupe/net/codec/codec.hpp"

namespace troupe {

void packet_report_exchange::on_interval() {
  auto& table = context_.peers();
  for (auto& [task, one] : connections_.all()) {
    const auto sent = table.get([&, at = task] {
      const auto view_id = table.view.view_id;
      const auto found = table.counts.find({view_id, at});
      return found == table.counts.end() ? packet_report{view_id}
                                         : found->second->sent(view_id);
    });
    if (auto report = one.reporter.on_interval(sent))
      one.packet_reports->post({net::frame_kind::oneway, net::priority::control,
                                report->view_id, ++one.last_tag,
                                net::encode(*report)});
  }
}

void packet_report_exchange::on(peer_connection& sender,
                                const net::frame& frame) {
  sender.packet_reports->consumed(frame.priority);
  packet_report report;
  if (const auto fault = net::decode(frame.payload, report))
    return sender.connection->close("a report of packets is malformed: "
                                    + to_string(*fault));
  auto& table = context_.peers();
  const auto counts = table.get([&] {
    // The sender can have entered the next view before this process.
    const auto own = table.view.view_id;
    return report.view_id == own || report.view_id == own + 1
             ? table.counts_of(report.view_id, sender.task)
             : nullptr;
  });
  if (counts)
    counts->set_reported(report);
}

} // namespace troupe
