#pragma once

#include "troupe/strategies/coordinator/messages.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

namespace troupe::coordinator {

/// Measures the staleness of the gradients of closures at one shard. It is the
/// number of other changes of a part between the read of an execution and the
/// gradient of this execution.
///
///   cost  an entry of a map for each part that an execution has read and that
///         is not decided, of at most `max_executions` executions. Gradients of
///         further ones are not measured
class staleness_meter {
public:
  static constexpr std::size_t max_executions = 4096;

  /// An execution that is not decided reads a part. Its first read counts.
  /// @param version number of changes of the part so far.
  void on_read(const execution& by, std::uint64_t part, std::uint64_t version) {
    const auto found = reads_.find(by);
    if (found == reads_.end() && reads_.size() == max_executions)
      return;
    reads_[by].try_emplace(part, version);
  }

  /// A gradient of an execution is about to change a part. It is not measured
  /// if the execution has not read the part here.
  void on_gradient(const execution& by, std::uint64_t part,
                   std::uint64_t version) {
    const auto found = reads_.find(by);
    if (found == reads_.end() || !found->second.contains(part))
      return;
    const auto staleness = version - found->second.at(part);
    ++gradients_;
    sum_ += staleness;
    largest_ = std::max(largest_, staleness);
  }

  /// Forgets what the executions of some closures have read.
  /// @param is_over called with the number of a closure.
  template <class F>
  void forget_if(const F& is_over) {
    std::erase_if(reads_,
                  [&](const auto& one) { return is_over(one.first.ordinal); });
  }

  /// Number of gradients that were measured.
  std::uint64_t gradients() const { return gradients_; }
  /// Sum of their staleness.
  std::uint64_t sum() const { return sum_; }
  /// Maximum of their staleness.
  std::uint64_t largest() const { return largest_; }
  /// Number of executions whose reads are kept.
  std::size_t executions() const { return reads_.size(); }

private:
  /// Version that was read, by execution and part.
  std::map<execution, std::map<std::uint64_t, std::uint64_t>> reads_;
  std::uint64_t gradients_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t largest_ = 0;
};

} // namespace troupe::coordinator
