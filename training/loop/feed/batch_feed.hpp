#pragma once

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/tensors/device.hpp"
#include "troupe/training/loop/feed/batch_copies.hpp"
#include "troupe/training/loop/feed/batch_reader.hpp"
#include "troupe/training/strategies/replica/local_batches.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace troupe {

/// Number of batches that a fit and an evaluation read ahead, unless the
/// dataset says another.
inline constexpr std::size_t default_read_ahead = 2;

/// The rows of this process from the batch of a step.
struct step_batch {
  local_batch rows; ///< As the dataset yields them.
  /// The same rows, but perhaps only those of one replica. What a step computes
  /// with is on the device of the replica.
  local_batch on_device;
};

/// Gives each replica of this process the batch of a step. All of these
/// replicas share one read pipeline, and one replica may be several steps ahead
/// of another.
///
/// For a model on devices, the feed copies the next batch to them during a
/// step, if a thread has read that batch in advance. Otherwise the copy is made
/// when the batch is requested. Without prefetching, the dataset is read when a
/// batch is requested. If a device has too little memory for the copy, the feed
/// copies no more batches ahead. Copies that are not used any more, for example
/// after a change of the view, are released with the feed.
class batch_feed {
public:
  /// @param start position in the dataset of the batch of step `first_step`.
  /// @param group the replica group whose local replicas request the batches.
  /// @param shares of the replicas; see `rows_of_replicas`.
  /// @param devices which the replicas of this process take in turn. Empty: the
  ///        CPU.
  batch_feed(const data::dataset& batches, const data::position& start,
             std::uint64_t first_step, const replica_group& group,
             const batch_shares& shares = {},
             const std::vector<device>& devices = {});

  /// Returns the batch of a step for a replica, which may request it any number
  /// of times. The feed discards the batch of step s when a replica
  /// requests the batch of a step after s + `max_steps_ahead`. If this process
  /// has one replica, the feed discards the batch when the replica requests the
  /// next batch. While it copies batches ahead, it keeps one batch more.
  /// @param index of the replica in this process.
  /// @errors throws the exception of a failed read, and std::runtime_error if
  ///         the dataset's timeout expires. Throws std::logic_error if the
  ///         epoch ends before this step or the batch was discarded.
  step_batch batch_of_step(std::uint64_t step, std::size_t index = 0);

  /// Starts to copy the batch of the next step to the devices. A replica calls
  /// it when it has given the work of a step to its device, and before it waits
  /// for results. No effect on the CPU, and if that batch is not read yet.
  /// @returns true if the devices have that batch, or have begun to copy it.
  bool copy_ahead(std::uint64_t step);

private:
  struct slot {
    local_batch rows;
    std::unique_ptr<batch_copies> copies; ///< Null: the model is on the CPU.
  };

  slot& slot_of(std::uint64_t step) { return ring_[step % ring_.size()]; }
  static void discard(slot& one);
  /// Discards the batch whose place the batch of step `next_` takes.
  void discard_oldest();
  /// Reads the batch of step `next_`. @returns false: the epoch has ended.
  bool read();
  /// Reserves memory for the batch of step `next_`.
  void reserve(const local_batch& like);
  void copy_no_more_ahead();

  std::mutex lock_;
  local_batches batches_;
  /// Reads in advance for a device. Null: `batches_` is read.
  std::unique_ptr<batch_reader> reader_;
  std::uint64_t next_;     ///< First step whose batch has not been read.
  std::uint64_t oldest_;   ///< First step whose batch is kept.
  std::vector<slot> ring_; ///< Batch of step s at index s % size.
  /// Has memory for the batch of step `next_`. Null: the model is on the CPU.
  std::unique_ptr<batch_copies> next_copies_;
  /// The devices have memory for the batch of another step.
  bool copies_ahead_ = false;
  /// The rows of step `next_`, if a device had no memory for them.
  std::optional<local_batch> not_copied_;
};

} // namespace troupe
