#include "troupe/actors/node/status_query.hpp"

#include "troupe/actors/node/blocking_client.hpp"
#include "troupe/actors/node/remote_node.hpp"
#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/protocol/server_status_actor.hpp"
#include "troupe/actors/protocol/status_actor.hpp"
#include "troupe/actors/remoting/proxy.hpp"
#include "troupe/actors/runtime/runtime.hpp"

#include <algorithm>

namespace troupe {

namespace {

template <class Role, class T, class Atom>
T query(runtime& local_runtime, net::endpoint& endpoint,
        const std::string& address, const char* purpose,
        const client_options& options, Atom request) {
  const auto connection =
    connect(endpoint, address,
            {{}, options.name, local_runtime.incarnation(), purpose, {}},
            options.connect_timeout);
  const auto role_proxy =
    spawn_proxy<Role>(local_runtime.system(), connection->open(root_channel),
                      {.request_timeout = options.connect_timeout});
  auto answer = ask<T>(local_runtime.system(), address + ": " + purpose,
                       role_proxy, options.connect_timeout, request);
  connection->close("the status client is done");
  return answer;
}

/// Describes the parameter servers that a node knows, or the node itself.
std::string node_text(runtime& local_runtime, const std::string& address,
                      const client_options& options, const node_info& info) {
  if (std::ranges::find(info.roles, server_status_role) == info.roles.end())
    return to_text(info);
  remote_node chief{local_runtime, address, options};
  return to_text(ask<servers_summary>(
    local_runtime.system(), address + ": " + server_status_role,
    chief.spawn<server_status_actor>(server_status_role),
    options.connect_timeout, atom::status_v));
}

} // namespace

std::string query_status(runtime& local_runtime, const std::string& address,
                         const client_options& options) {
  const auto endpoint = make_client_endpoint(options);
  const auto is_refusal = [](const job_error& x) {
    return x.code == ec::refused;
  };
  try {
    return to_text(query<status_actor, job_status>(
      local_runtime, *endpoint, address, "status", options, atom::status_v));
  } catch (const job_error& first_error) {
    if (!is_refusal(first_error))
      throw;
    try {
      return node_text(local_runtime, address, options,
                       query<node_actor, node_info>(local_runtime, *endpoint,
                                                    address, "node", options,
                                                    atom::info_v));
    } catch (const job_error& second_error) {
      // If the peer refuses both purposes, "status" and "node", throw the first
      // refusal. It may name the leader of the job, which can answer the query.
      throw job_error{is_refusal(second_error) ? first_error : second_error};
    }
  }
}

} // namespace troupe
