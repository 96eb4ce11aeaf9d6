#include "troupe/actors/protocol/run_messages.hpp"

namespace troupe {

namespace {

/// Distributes the elements of a batch over batches of limited size.
class splitter {
public:
  /// Appends the elements of one list, in order.
  template <class T>
  void add(std::vector<T> owner_batch::*list, const std::vector<T>& all) {
    for (const auto& x : all) {
      const auto size = elements(x);
      if (batches_.empty() || filled_ + size > max_batch_elements) {
        batches_.emplace_back();
        filled_ = 0;
      }
      filled_ += size;
      (batches_.back().*list).push_back(x);
    }
  }
  std::vector<owner_batch> done() && { return std::move(batches_); }

private:
  template <class T>
  static std::size_t elements(const T&) {
    return 1;
  }
  static std::size_t elements(const commit::blame& x) {
    return 1 + x.missing.size();
  }

  std::vector<owner_batch> batches_;
  std::size_t filled_ = 0; ///< Size of the last batch, in elements.
};

} // namespace

std::vector<owner_batch> split(const owner_batch& x) {
  splitter out;
  out.add(&owner_batch::seated, x.seated);
  out.add(&owner_batch::reports, x.reports);
  out.add(&owner_batch::blames, x.blames);
  return std::move(out).done();
}

} // namespace troupe
