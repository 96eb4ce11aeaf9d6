#include "troupe/actors/node/status_query.hpp"

#include "troupe/actors/node/blocking_client.hpp"
#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/remoting/proxy.hpp"
#include "troupe/actors/runtime/runtime.hpp"

namespace troupe {

namespace {

template <class Role, class T, class Atom>
std::string ask_at(runtime& in, net::endpoint& from, const std::string& where,
                   const char* purpose, const remote_options& options,
                   Atom question) {
  const auto line =
    call(from, where, {{}, options.name, in.incarnation(), purpose, {}},
         options.patience);
  const Role desk =
    in.system().spawn(proxy<Role>, line->open(desk_channel),
                      proxy_options{.patience = options.patience});
  auto said = to_text(ask<T>(in.system(), where + ": " + purpose, desk,
                             options.patience, question));
  line->close("the status client is done");
  return said;
}

} // namespace

std::string remote_status(runtime& in, const std::string& where,
                          const remote_options& options) {
  const auto from = endpoint_for(options);
  const auto is_refusal = [](const failure& x) {
    return x.code == ec::refused;
  };
  try {
    return ask_at<status_actor, job_status>(in, *from, where, "status", options,
                                            atom::status_v);
  } catch (const failure& x) {
    if (!is_refusal(x))
      throw;
    try {
      return ask_at<node_actor, node_info>(in, *from, where, "node", options,
                                           atom::who_v);
    } catch (const failure& y) {
      // The first rejection may name the leader, which is to be asked.
      throw failure{is_refusal(y) ? x : y};
    }
  }
}

} // namespace troupe
