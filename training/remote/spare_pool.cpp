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

spare_pool::spare_pool() = default;
spare_pool::~spare_pool() = default;

void spare_pool::listen(runtime& local_runtime,
                        const remote_strategy_options& options,
                        std::size_t nodes) {
  if (options.listen.empty())
    return;
  spare_acceptor::options config;
  config.listen = options.listen;
  config.connection = options.connection;
  config.incarnation = local_runtime.incarnation();
  config.log = log_of_connections;
  config.fault_of = [nodes, role = role_of_steps(options.steps)](
                      const spare_description& spare) -> std::string {
    if (nodes == 1)
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

std::vector<std::string> spare_pool::waiting() const {
  const auto it = acceptor();
  return it ? it->waiting() : std::vector<std::string>{};
}

std::optional<waiting_spare> spare_pool::take() {
  const auto it = acceptor();
  return it ? it->take() : std::nullopt;
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
