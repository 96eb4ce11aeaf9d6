#pragma once

#include "troupe/strategies/parameter_server/consistency.hpp"
#include "troupe/strategies/parameter_server/messages.hpp"
#include "troupe/training/parameter_server/server_variable.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// The variables of a training, and how messages name their parts. The
/// processes of the chief and of the workers compute it from the same
/// variables.
class training_layout {
public:
  /// A part of a variable in the training.
  struct variable_part {
    std::uint32_t variable = 0; ///< Index among those of the training.
    std::uint32_t part = 0;     ///< Index among those of the variable.
  };

  /// @param variables of one strategy; no two are the same.
  explicit training_layout(std::vector<server_variable> variables);

  const std::vector<server_variable>& variables() const { return variables_; }
  /// Number of servers of the strategy.
  std::uint32_t servers() const {
    return static_cast<std::uint32_t>(parts_.size());
  }
  /// Returns the parts at a server, by their index in the training there.
  const std::vector<variable_part>& parts_of(std::uint32_t shard) const {
    return parts_[shard];
  }
  /// Returns the index of a part in the training at its server.
  std::uint32_t index_of(const variable_part& x) const {
    return indices_[x.variable][x.part];
  }
  /// Returns the server of a part.
  std::uint32_t shard_of(const variable_part& x) const {
    return variables_[x.variable].servers()[x.part];
  }

  /// Returns the training as its server begins it.
  /// @param rules by variable.
  parameter_server::training
  training_of(std::uint32_t shard, std::uint64_t number, std::uint32_t replicas,
              std::span<const parameter_server::consistency> rules) const;

private:
  std::vector<server_variable> variables_;
  std::vector<std::vector<variable_part>> parts_;   ///< By server.
  std::vector<std::vector<std::uint32_t>> indices_; ///< By variable and part.
};

} // namespace troupe
