#pragma once

#include "troupe/actors/collectives/nccl/blocking_calls.hpp"
#include "troupe/actors/collectives/nccl/communicator/communicator_id_exchange.hpp"
#include "troupe/actors/collectives/nccl/communicator/device_communicator.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// What a communicator uses; the same for all generations of a rank.
struct communicator_environment {
  std::shared_ptr<communication_device> device;
  std::shared_ptr<device_stream> stream; ///< The communication stream.
  std::shared_ptr<communicator_id_exchange> ids;
  std::shared_ptr<blocking_calls> blocking;
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;
  /// Time from the construction until all ranks have joined.
  std::chrono::milliseconds initialize_timeout{60'000};
  /// Time for which an orderly end waits for the other ranks.
  std::chrono::milliseconds finalize_timeout{5'000};
};

/// The communicator of one generation, from the exchange of its id until
/// nothing accesses its memory any more.
///
///   exchanging_id  rank 0 makes the id and publishes it; the other ranks wait
///                  for it
///   initializing   all ranks join
///   ready          groups may start
///   finalizing     an orderly end waits for the other ranks
///   aborting       `device_communicator::abort` has not returned
///   draining       the stream has not reached an event that was recorded after
///                  the abort
///   closed         the memory was released
///   failed         initialisation or a group failed, or a deadline has passed;
///                  the owner calls `close`
///
/// `make_id`, `initialize`, `abort` and the destructor of the communicator run
/// in `blocking_calls`. All other calls are made by the caller of `progress`.
class generation_communicator {
public:
  using time_point = std::chrono::steady_clock::time_point;
  enum class state {
    exchanging_id,
    initializing,
    ready,
    finalizing,
    aborting,
    draining,
    closed,
    failed
  };

  generation_communicator(const communicator_environment& environment,
                          std::uint64_t generation, time_point now);

  /// Goes on as far as possible without waiting, and returns the state.
  state progress(time_point now);

  /// Says why the state is `failed`.
  const std::string& error() const { return error_; }

  /// Returns the communicator. Null before it was initialised.
  device_communicator* get() const { return communicator_.get(); }
  /// True if the state is `ready` and the last group is in the stream.
  bool accepts_group();

  /// Memory and streams that work of this communicator may still access.
  struct guarded_memory {
    std::vector<device_memory> memory;
    /// Events of other streams whose work accesses the memory.
    std::vector<device_event_ptr> events;
  };
  /// Ends the communicator: finalises it if no work is left, else aborts it.
  /// @param guarded is released when the communicator is closed.
  void close(bool work_left, guarded_memory guarded, time_point now);

private:
  /// Result of a call that may block. The call and this object share it.
  template <class T>
  struct call_result {
    std::mutex lock;
    std::optional<T> value;
    std::string error;
    bool done = false;
    bool abandoned = false; ///< The caller does not want the value any more.
  };
  using communicator_ptr = std::shared_ptr<device_communicator>;

  void exchange_id();
  void initialize();
  void poll_initialization();
  void abort();
  void poll_drain();
  void release();
  void fail(std::string reason);

  communicator_environment environment_;
  std::uint64_t generation_;
  time_point deadline_;
  state state_ = state::exchanging_id;
  std::string error_;
  std::shared_ptr<call_result<communicator_id>> made_id_;
  std::shared_ptr<call_result<communicator_ptr>> initialized_;
  std::shared_ptr<call_result<bool>> aborted_;
  communicator_ptr communicator_;
  guarded_memory guarded_;
};

} // namespace troupe
