#include "troupe/actors/protocol/run_messages.hpp"

namespace troupe {

namespace {

/// Distributes the elements of a batch over batches of limited size.
class batch_splitter {
public:
  /// Appends `items` to the member `list` of the last limited batch, in order.
  /// Begins another batch whenever the last one is full.
  template <class T>
  void add(std::vector<T> owner_batch::*list, const std::vector<T>& items) {
    for (const auto& item : items) {
      const auto size = elements(item);
      if (batches_.empty() || filled_ + size > max_batch_elements) {
        batches_.emplace_back();
        filled_ = 0;
      }
      filled_ += size;
      (batches_.back().*list).push_back(item);
    }
  }
  std::vector<owner_batch> result() && { return std::move(batches_); }

private:
  template <class T>
  static std::size_t elements(const T&) {
    return 1;
  }
  static std::size_t elements(const step_commit::wait_report& x) {
    std::size_t count = 1 + x.missing.size();
    for (const auto& suspect : x.suspects)
      count += 1 + suspect.reason.size() / element_bytes;
    return count;
  }

  std::vector<owner_batch> batches_;
  std::size_t filled_ = 0; ///< Size of the last batch, in elements.
};

} // namespace

std::vector<owner_batch> split(const owner_batch& batch) {
  batch_splitter splitter;
  splitter.add(&owner_batch::configured, batch.configured);
  splitter.add(&owner_batch::steps_done, batch.steps_done);
  splitter.add(&owner_batch::wait_reports, batch.wait_reports);
  return std::move(splitter).result();
}

} // namespace troupe
