#pragma once

#include "troupe/training/remote/remote_strategy.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe {

class spare_acceptor;
struct waiting_spare;

/// A node that has a worker in the job of a client.
struct job_member {
  std::string address; ///< Address by which the client has named the node.
  std::uint64_t incarnation = 0; ///< Incarnation of its process.
};

/// The spares of a client: nodes that have announced themselves, and wait until
/// the client uses or releases them. A member of the job that has announced
/// itself waits too, but is no spare before it is lost. If it were refused, its
/// process and its worker would end.
class spare_pool {
public:
  spare_pool();
  /// Ends the connections of the spares. They announce themselves again.
  ~spare_pool();
  spare_pool(const spare_pool&) = delete;
  spare_pool& operator=(const spare_pool&) = delete;

  /// Listens at `options.listen`. No effect if it is empty.
  /// @param nodes addresses of the nodes of the job. If there is one node, all
  ///        others are rejected.
  /// @errors throws as the constructor of `net::endpoint`.
  void listen(runtime& local_runtime, const remote_strategy_options& options,
              const std::vector<std::string>& nodes);

  /// Address at which the client listens. Empty: it does not listen.
  const std::string& address() const { return address_; }

  /// Replaces the list of the nodes that have a worker in the job.
  void set_members(std::vector<job_member> members);

  /// Addresses of the spares that wait, in the order of their arrival. Any
  /// thread may call this function.
  std::vector<std::string> waiting() const;

  /// Removes the first spare that waits. None: no spare waits.
  /// @param except incarnations of processes that are left out.
  std::optional<waiting_spare> take(const std::set<std::uint64_t>& except = {});

  /// Releases the spares and listens no more, because the job has ended.
  void release();

  /// Listens no more, because the job has failed. The spares announce
  /// themselves again, so another strategy that listens at the address gets
  /// them.
  void close();

private:
  std::shared_ptr<spare_acceptor> acceptor() const;
  std::vector<job_member> members() const;

  std::string address_;
  mutable std::mutex lock_; // guards the members below
  /// Null: the client does not listen.
  std::shared_ptr<spare_acceptor> acceptor_;
  std::vector<job_member> members_;
};

} // namespace troupe
