#pragma once

#include "troupe/training/remote/remote_strategy.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

class spare_acceptor;
struct waiting_spare;

/// The spares of a client: nodes that have announced themselves, and wait until
/// the client uses or releases them.
class spare_pool {
public:
  spare_pool();
  /// Ends the connections of the spares. They announce themselves again.
  ~spare_pool();
  spare_pool(const spare_pool&) = delete;
  spare_pool& operator=(const spare_pool&) = delete;

  /// Listens at `options.listen`. No effect if it is empty.
  /// @param nodes number of nodes of the job. A spare is rejected if it is 1.
  /// @errors throws as the constructor of `net::endpoint`.
  void listen(runtime& local_runtime, const remote_strategy_options& options,
              std::size_t nodes);

  /// Address at which the client listens. Empty: it does not listen.
  const std::string& address() const { return address_; }

  /// Addresses of the spares that wait, in the order of their arrival. Any
  /// thread may call this function.
  std::vector<std::string> waiting() const;

  /// Removes the first spare that waits. None: no spare waits.
  std::optional<waiting_spare> take();

  /// Releases the spares and listens no more, because the job has ended.
  void release();

  /// Listens no more, because the job has failed. The spares announce
  /// themselves again, so another strategy that listens at the address gets
  /// them.
  void close();

private:
  std::shared_ptr<spare_acceptor> acceptor() const;

  std::string address_;
  mutable std::mutex lock_; // guards `acceptor_`
  /// Null: the client does not listen.
  std::shared_ptr<spare_acceptor> acceptor_;
};

} // namespace troupe
