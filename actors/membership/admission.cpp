#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/actors/membership/status_service.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/base/log_rate_limiter.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/tensors/kernels.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <algorithm>

// Admission: which processes the leader admits and which streams a process
// accepts, and the hello by which a process introduces itself.

namespace troupe {

using namespace std::chrono_literals;

void cluster::inside::open_door() {
  door_ = options.at;
  if (door_)
    return;
  const auto& mine = options.addresses[options.index];
  net::endpoint_options x;
  x.listen = options.listen ? *options.listen : mine;
  if (mine.port != 0)
    x.advertised = mine;
  x.credentials = options.credentials;
  x.heartbeat = options.heartbeat;
  x.suspect = options.suspect;
  x.patience = std::min<std::chrono::milliseconds>(options.farewell, 5s);
  x.log = options.log;
  x.if_in_use = "does another process say that it is " + me() + "?";
  door_ = std::make_shared<door>(x);
}

roster::hello cluster::inside::own_hello() const {
  const auto& at = door_->endpoint().reachable_at();
  return {options.index,
          incarnation_,
          at.host,
          at.port,
          {"wire " + std::to_string(net::wire_version),
           std::string{kernel_level()},
           static_cast<std::uint32_t>(options.threads), options.replicas,
           options.agreed}};
}

net::hello cluster::inside::greeting(const std::string& purpose) const {
  const auto self = own_hello();
  return {
    options.job, me(), incarnation_, purpose,
    net::encode(self.task, self.incarnation, self.host, self.port, self.on)};
}

// -- accepted connections -----------------------------------------------------

void cluster::inside::serve() {
  if (options.index == 0)
    hall_->who.emplace(options.names, own_hello());
  if (options.index == 0) // first: members join before they dial for streams
    served_.push_back(door_->serve(
      options.job, "control",
      {[this](const net::hello& x) { return admit(x); },
       [in = hall_](const net::hello& x, net::arrived&& what) {
         roster::hello from;
         auto* it = std::get_if<std::shared_ptr<net::connection>>(&what);
         if (it
             && !net::decode(x.note, from.task, from.incarnation, from.host,
                             from.port, from.on))
           settle(in, from.task, from.incarnation, std::move(*it));
       },
       [in = hall_](const net::hello& x) {
         roster::hello from;
         if (net::decode(x.note, from.task, from.incarnation, from.host,
                         from.port, from.on))
           return;
         const std::lock_guard hold{in->lock};
         in->who->on_lost(from.task, from.incarnation);
         in->news.notify_all();
       }}));
  for (const auto* purpose : {"parts", "sums"})
    served_.push_back(door_->serve(
      options.job, purpose,
      {[this](const net::hello& x) { return admit_stream(x); },
       [in = hall_](const net::hello& x, net::arrived&& what) {
         roster::hello from;
         auto* it = std::get_if<std::unique_ptr<net::stream>>(&what);
         if (!it
             || net::decode(x.note, from.task, from.incarnation, from.host,
                            from.port, from.on))
           return;
         const std::lock_guard hold{in->lock};
         in->streams[{from.task, from.incarnation, x.purpose}] = std::move(*it);
         in->news.notify_all();
       }}));
  try {
    served_.push_back(door_->serve({}, "status", status_host()));
  } catch (const std::logic_error&) {
    // another job of this process answers status queries on this endpoint
  }
}

/// In the leader's process answers status queries. Any other process rejects
/// them and names the leader.
door::host cluster::inside::status_host() {
  if (options.index > 0)
    return {[why = me() + " does not lead; ask " + options.names[0] + " at "
                   + to_string(options.addresses[0])](const net::hello&) {
              return net::verdict{false, why, {}, {}};
            },
            [](const net::hello&, net::arrived&&) {}};
  const auto it = spawn_reporter(
    on.system(), {hall_, options.job, options.names, incarnation_});
  forget_logger();
  reporter_ = caf::actor_cast<caf::actor>(it);
  return {[](const net::hello&) { return net::verdict{}; },
          [it](const net::hello&, net::arrived&& x) {
            if (auto* one = std::get_if<std::shared_ptr<net::connection>>(&x))
              caf::anon_send(it, guest_ref{std::move(*one)});
          }};
}

net::verdict cluster::inside::admit(const net::hello& x) {
  net::verdict out;
  out.who = greeting("control");
  roster::hello from;
  if (const auto fault = net::decode(x.note, from.task, from.incarnation,
                                     from.host, from.port, from.on)) {
    out = {false, "the hello is malformed: " + to_string(*fault), {}, {}};
    return out;
  }
  const std::lock_guard hold{hall_->lock};
  const auto what = hall_->who->on(from);
  if (const auto* no = std::get_if<roster::refused>(&what)) {
    out.taken = false;
    out.why = no->why;
    const auto said = net::printable(no->why);
    if (from.task < processes())
      hall_->turned_away[from.task] = said;
    if (options.log)
      options.log(net::severity::warning,
                  me() + " rejected a process: " + said);
  }
  return out;
}

net::verdict cluster::inside::admit_stream(const net::hello& x) {
  roster::hello from;
  if (net::decode(x.note, from.task, from.incarnation, from.host, from.port,
                  from.on)
      || from.task <= options.index || from.task >= processes())
    return {false,
            "only processes with a higher task number may open streams to "
              + me(),
            {},
            {}};
  const std::lock_guard hold{hall_->lock};
  if (hall_->streams.size() > 8 * options.names.size())
    return {false, me() + " has too many unused streams", {}, {}};
  if (hall_->table
      && (from.task >= hall_->table->members.size()
          || hall_->table->members[from.task].incarnation != from.incarnation))
    return {false,
            "another process is the admitted " + options.names[from.task],
            {},
            {}};
  return {};
}

} // namespace troupe
