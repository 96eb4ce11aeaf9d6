#include "troupe/actors/membership/roles/result_exchange.hpp"

#include "troupe/net/codec/codec.hpp"

#include <utility>

namespace troupe {

void result_exchange::on(const membership_event::request_results& x) {
  // Some of them may have joined, too, and not know the results yet.
  const membership::call_results question{true, x.call, {}};
  requested_call_ = x.call;
  unanswered_.clear();
  for (auto& [task, one] : connections_.all())
    if (one.results->post({net::frame_kind::oneway, net::priority::control, 0,
                           ++one.last_tag, net::encode(question)}))
      unanswered_.insert(task);
    else
      one.connection->close("a request of results could not be sent");
}

void result_exchange::note_answer(std::uint32_t task) {
  auto& table = context_.peers();
  if (unanswered_.erase(task) > 0 && unanswered_.empty())
    table.update([&] { ++table.log.answers; });
}

void result_exchange::on(peer_connection& sender, const net::frame& frame) {
  sender.results->consumed(frame.priority);
  membership::call_results message;
  if (const auto fault = net::decode(frame.payload, message))
    return sender.connection->close("a message about results is malformed: "
                                    + to_string(*fault));
  if (message.is_question)
    return answer(sender, message.first);
  // A member answers each request once.
  if (message.first == requested_call_ && unanswered_.contains(sender.task))
    take(sender, std::move(message));
}

void result_exchange::take(peer_connection& sender,
                           membership::call_results&& answered) {
  auto& table = context_.peers();
  const bool is_too_large = table.get([&] {
    const auto& log = table.log;
    auto bytes = log.bytes;
    auto call = answered.first;
    for (const auto& x : answered.results)
      if (call++ >= log.results.size()) // else another member has told it
        bytes += x.size();
    return bytes > peer_table::result_log::max_bytes;
  });
  if (is_too_large)
    return sender.connection->close(
      "the results of calls take more than "
      + std::to_string(peer_table::result_log::max_bytes >> 20) + " MiB");
  table.update([&] {
    auto& log = table.log;
    auto call = answered.first;
    for (auto& x : answered.results)
      if (call++ == log.results.size()) {
        log.bytes += x.size();
        log.results.push_back(std::move(x));
      }
  });
  note_answer(sender.task);
}

/// A member answers with the results that fit into a message.
void result_exchange::answer(peer_connection& asker, std::uint64_t first) {
  constexpr std::size_t overhead = 64; // of a result, and of the message
  const auto limit =
    asker.results->limits().max_payload(net::priority::control);
  membership::call_results out{false, first, {}};
  auto& table = context_.peers();
  auto rejection = table.get([&] {
    const auto& log = table.log;
    auto bytes = 2 * overhead;
    for (auto i = first; i < log.results.size(); ++i) {
      bytes += log.results[i].size() + overhead;
      if (bytes > limit)
        return out.results.empty()
                 ? std::string{"the result of a call is too large"}
                 : log.rejection;
      out.results.push_back(log.results[i]);
    }
    return log.rejection;
  });
  if (!rejection.empty() && asker.request)
    return admission_.reject(asker,
                             "no process can join this job: " + rejection);
  if (!asker.results->post({net::frame_kind::oneway, net::priority::control, 0,
                            ++asker.last_tag, net::encode(out)}))
    asker.connection->close("results could not be sent");
}

} // namespace troupe
