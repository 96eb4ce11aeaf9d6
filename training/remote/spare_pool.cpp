#include "troupe/training/remote/spare_pool.hpp"

#include "troupe/actors/core/log.hpp"
#include "troupe/actors/node/spare_acceptor.hpp"
#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/training/remote/worker.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

/// The address alone is not enough, because a process may have several. The
/// incarnation alone is not enough either. If a new process has the address,
/// the client has to find out that it has lost the former one.
bool is_one_of(const std::vector<job_member>& members,
               const waiting_spare& spare) {
  return std::ranges::any_of(members, [&](const job_member& x) {
    return x.address == spare.description.address
           || x.incarnation == spare.incarnation;
  });
}

} // namespace

spare_pool::spare_pool() = default;
spare_pool::~spare_pool() = default;

void spare_pool::listen(runtime& local_runtime,
                        const remote_strategy_options& options,
                        const std::vector<std::string>& nodes) {
  if (options.listen.empty())
    return;
  spare_acceptor::options config;
  config.listen = options.listen;
  config.connection = options.connection;
  config.incarnation = local_runtime.incarnation();
  config.max_spares += nodes.size(); // all members may wait too
  config.log = log_of_connections;
  config.fault_of = [nodes, role = role_of_steps(options.steps)](
                      const spare_description& spare) -> std::string {
    if (nodes.size() == 1 && spare.address != nodes.front())
      return "the job has one node, so it ends with that node and needs no "
             "spare";
    if (std::ranges::find(spare.roles, role) == spare.roles.end())
      return "the node has no role \"" + role
             + "\"; it has: " + net::printable(name_list(spare.roles));
    return {};
  };
  const std::lock_guard hold{lock_};
  acceptor_ = std::make_shared<spare_acceptor>(config);
  address_ = acceptor_->address();
}

std::shared_ptr<spare_acceptor> spare_pool::acceptor() const {
  const std::lock_guard hold{lock_};
  return acceptor_;
}

std::vector<job_member> spare_pool::members() const {
  const std::lock_guard hold{lock_};
  return members_;
}

void spare_pool::set_members(std::vector<job_member> members) {
  const std::lock_guard hold{lock_};
  members_ = std::move(members);
}

std::vector<std::string> spare_pool::waiting() const {
  const auto it = acceptor();
  if (!it)
    return {};
  return it->waiting(
    [all = members()](const waiting_spare& x) { return !is_one_of(all, x); });
}

std::optional<waiting_spare>
spare_pool::take(const std::set<std::uint64_t>& except) {
  const auto it = acceptor();
  if (!it)
    return std::nullopt;
  return it->take([&except, all = members()](const waiting_spare& x) {
    return !except.contains(x.incarnation) && !is_one_of(all, x);
  });
}

void spare_pool::release() {
  if (const auto it = acceptor())
    it->release("the job of the client has ended");
  close();
}

void spare_pool::close() {
  std::shared_ptr<spare_acceptor> closed; // its destructor waits
  const std::lock_guard hold{lock_};
  closed.swap(acceptor_);
}

} // namespace troupe
