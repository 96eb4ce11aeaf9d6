#include "troupe/training/parameter_server/host_connections.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/node/remote_node.hpp"
#include "troupe/actors/runtime/role_registry.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/actors/shard/shard_host.hpp"

#include <caf/actor_cast.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

namespace troupe {

namespace {

constexpr auto host_role = "parameter_server";
constexpr auto access_role = "parameter_server_access";
/// Maximum duration of an attempt to connect, which is repeated.
constexpr std::chrono::milliseconds max_connect_timeout{2'000};
constexpr std::uint32_t max_shards = 4096;

/// The hosts of this process. Any thread may call the functions.
class host_directory {
public:
  /// Makes the host of a job.
  /// @errors throws std::invalid_argument if the job has one here already:
  ///         clients could find the wrong one.
  template <class F>
  shard_host_actor make(const std::string& job, F spawn_host) {
    const std::lock_guard hold{lock_};
    std::erase_if(hosts_, [](const auto& x) {
      return !caf::actor_cast<caf::strong_actor_ptr>(x.second);
    });
    if (hosts_.contains(job))
      throw std::invalid_argument(
        "this process has copies of the servers of the job already");
    const shard_host_actor made = spawn_host();
    hosts_[job] = made.address();
    return made;
  }

  /// Null: there is none, or it has ended.
  shard_host_actor find(const std::string& job) const {
    const std::lock_guard hold{lock_};
    const auto found = hosts_.find(job);
    return found == hosts_.end()
             ? shard_host_actor{}
             : caf::actor_cast<shard_host_actor>(found->second);
  }

private:
  mutable std::mutex lock_;
  std::map<std::string, caf::actor_addr> hosts_; ///< Weak.
};

template <class... Args>
host_link connect(runtime& actors, const std::string& address,
                  const client_options& options, const std::string& role,
                  const Args&... args) {
  auto node = std::make_shared<remote_node>(actors, address, options);
  auto host = node->spawn<shard_host_actor>(role, args...);
  const auto server = node->incarnation();
  return {address, server, std::move(host), std::move(node), {}};
}

template <class... Args>
host_connector connector(runtime& actors, client_options options,
                         const std::string& role, const Args&... args) {
  options.connect_timeout =
    std::min(options.connect_timeout, max_connect_timeout);
  return [=, &actors](const std::string& address, const caf::actor_addr& to) {
    // An actor of its own blocks, because the receiver must not.
    actors.system().spawn<caf::detached>(
      [=, &actors](caf::event_based_actor*) -> caf::behavior {
        host_link link;
        try {
          link = connect(actors, address, options, role, args...);
        } catch (const job_error& e) {
          link.problem = e.what();
          link.is_refused = e.code == ec::refused;
        } catch (const std::exception& e) {
          link.problem = e.what();
        }
        link.address = address;
        if (const auto receiver = caf::actor_cast<caf::actor>(to))
          caf::anon_send(receiver, std::move(link));
        return {}; // it ends here
      });
  };
}

} // namespace

void register_shard_host(runtime& actors, const client_options& to_servers,
                         const std::function<void()>& before_answer) {
  const auto directory = std::make_shared<host_directory>();
  register_role<shard_host_actor, std::string, std::uint32_t, std::uint64_t>(
    actors, host_role,
    [directory, to_servers, before_answer,
     &actors](caf::actor_system& system, const std::string& job,
              std::uint32_t shards, std::uint64_t max_bytes) {
      if (shards == 0 || shards > max_shards)
        throw std::invalid_argument(std::to_string(shards) + " shards");
      return directory->make(job, [&] {
        return system.spawn<caf::detached>(
          shard_host,
          shard_host_config{actors.incarnation(), shards,
                            connect_shard_hosts(actors, to_servers, job),
                            max_bytes, before_answer});
      });
    });
  register_role<shard_host_actor, std::string>(
    actors, access_role,
    [directory](caf::actor_system& system, const std::string& job) {
      const auto found = directory->find(job);
      return found ? shard_host_actor{system.spawn(shard_host_access, found)}
                   : shard_host_actor{};
    });
}

std::vector<host_link> make_local_hosts(caf::actor_system& system,
                                        std::uint32_t shards,
                                        std::uint64_t max_bytes) {
  std::vector<host_link> out;
  for (std::uint32_t i = 0; i < shards; ++i) {
    host_link one;
    one.address = "thread " + std::to_string(i);
    one.server = i + std::uint64_t{1};
    one.host = system.spawn<caf::detached>(
      shard_host, shard_host_config{one.server, shards, connect_local_hosts({}),
                                    max_bytes});
    out.push_back(std::move(one));
  }
  return out;
}

host_connector connect_local_hosts(const std::vector<host_link>& hosts) {
  std::map<std::string, std::pair<std::uint64_t, caf::actor_addr>> known;
  for (const auto& one : hosts)
    known[one.address] = {one.server, one.host.address()};
  return [known](const std::string& address, const caf::actor_addr& to) {
    host_link link;
    link.address = address;
    if (const auto found = known.find(address); found != known.end()) {
      link.server = found->second.first;
      link.host = caf::actor_cast<shard_host_actor>(found->second.second);
    }
    if (const auto receiver = caf::actor_cast<caf::actor>(to))
      caf::anon_send(receiver, std::move(link));
  };
}

host_link make_shard_host(runtime& actors, const std::string& address,
                          const client_options& options, const std::string& job,
                          std::uint32_t shards, std::uint64_t max_bytes) {
  return connect(actors, address, options, host_role, job, shards, max_bytes);
}

host_connector make_shard_hosts(runtime& actors, const client_options& options,
                                const std::string& job, std::uint32_t shards,
                                std::uint64_t max_bytes) {
  return connector(actors, options, host_role, job, shards, max_bytes);
}

host_connector connect_shard_hosts(runtime& actors,
                                   const client_options& options,
                                   const std::string& job) {
  return connector(actors, options, access_role, job);
}

} // namespace troupe
