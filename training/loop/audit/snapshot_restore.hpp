#pragma once

#include "troupe/training/loop/audit/state_snapshot.hpp"
#include "troupe/training/loop/model/model_state.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Where an epoch of `fit` stood before a step whose state has a snapshot.
struct snapshot_mark {
  std::uint64_t steps = 0; ///< Steps that the model had made.
  epoch_totals totals;     ///< Totals of these steps of the epoch.
};

std::string encode_mark(const snapshot_mark& mark);
/// @returns nullopt if the text is malformed.
std::optional<snapshot_mark> decode_mark(const std::string& text);

/// Restores the state of the newest intact snapshot of any process in all
/// processes. All processes of the view call it:
///
///   messages  each process gathers the step, the hash and the mark of its
///             snapshot. Then one that has the newest sends its tensors, if
///             another one lacks it
///   end       all have restored it, and all have the snapshot and its mark. So
///             each of them can restore it again, also if all others are lost
///   faults    a snapshot whose memory has changed, or without a mark, is not
///             used. A process that says of its snapshot that it is of another
///             step than its mark violates the protocol
/// @param own   snapshot of this process.
/// @param marks of the snapshots of this process.
/// @returns the mark of the restored snapshot. None: no process has one.
/// @errors throws `job_error`, also if a process is lost meanwhile. Then the
///         call can be repeated in the next view.
std::optional<snapshot_mark>
restore_newest_snapshot(model_state& model, state_snapshot& own,
                        std::vector<snapshot_mark>& marks);

} // namespace troupe
