#pragma once

#include "troupe/actors/protocol/closure.hpp"
#include "troupe/strategies/parameter_server/row_routing.hpp"
#include "troupe/tensors/parameter_gradient.hpp"
#include "troupe/training/parameter_server/training_layout.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace troupe {

/// The reads and contributions of a replica of a training: whole variables and
/// rows in place of parts at servers (`parameter_server::worker`). A closure
/// makes one, and uses it as long as it runs.
class server_replica {
public:
  /// @param training number of the training.
  server_replica(closure_environment& self,
                 std::shared_ptr<const training_layout> layout,
                 std::uint64_t training, std::uint32_t replica);

  /// Returns the first step to which some server lacks a contribution of this
  /// replica. A replica that was moved here goes on with it.
  /// @errors throws `job_error`; with `ec::superseded` if a later training has
  ///         begun.
  std::uint64_t find_step();

  /// A variable to read, or some of its rows.
  struct read {
    std::uint32_t variable = 0; ///< Index in the training.
    /// None: the whole variable. Not negative, below its number of rows, and
    /// none twice.
    std::optional<std::vector<std::int64_t>> rows{};
  };
  /// Reads variables for a step. Waits until the replica may read them.
  /// @pre no variable is named twice.
  /// @returns [n, d...], or [rows, d...], for each read. A whole variable may
  ///          share its elements with a server in this process, so it is
  ///          read-only.
  /// @errors as `find_step`
  tensors pull(std::uint64_t step, std::span<const read> all);

  /// Contributes to a step of all variables. Returns when the servers have
  /// acknowledged it.
  /// @param gradients by variable. Empty, or an empty one: the replica has none
  ///        for this step. They must not change until the step is decided.
  /// @param next read for the step after it. Like `pull`, but in one round trip
  ///        with the push. So it must not wait for what the caller does later.
  /// @returns as `pull`
  /// @errors as `find_step`
  tensors push(std::uint64_t step,
               std::span<const parameter_gradient> gradients,
               const parameter_server::update_factors& factors,
               std::span<const read> next = {});

  /// Returns the first step to which some server lacks a contribution of this
  /// replica, as the last `pull` or `find_step` has found. With backup workers,
  /// steps before it can be decided without this replica.
  std::uint64_t next_step() const { return next_step_; }

  /// Returns the newest version of the parts of a variable that was read last.
  /// That of a synchronous one counts the decisions on steps.
  std::uint64_t newest_version(std::uint32_t variable) const;

private:
  /// Where the value of a part goes.
  struct piece {
    std::size_t read = 0;
    std::uint32_t part = 0;
    tensor rows{}; ///< Of the part. Empty: all.
  };
  /// Reads, as they are divided among the servers.
  struct divided_reads {
    std::vector<closure_environment::step_pull> asked;
    /// Of each of them: pieces in the order of its parts.
    std::vector<std::vector<piece>> pieces;
    std::vector<parameter_server::routed_rows> routed; ///< By read.
  };
  divided_reads divide(std::uint64_t step, std::span<const read> all) const;
  tensors join(std::span<const read> all, const divided_reads& how,
               std::vector<closure_environment::step_values>&& answers);
  std::vector<closure_environment::step_push>
  pushes_of(std::uint64_t step, std::span<const parameter_gradient> gradients,
            const parameter_server::update_factors& factors) const;
  void note_versions(const closure_environment::step_pull& asked,
                     const parameter_server::pulled& answer);

  closure_environment& self_;
  const std::shared_ptr<const training_layout> layout_;
  const std::uint64_t training_;
  const std::uint32_t replica_;
  /// That were read last, by server and index of the part.
  std::vector<std::vector<std::uint64_t>> versions_;
  std::uint64_t next_step_ = 0;
};

} // namespace troupe
