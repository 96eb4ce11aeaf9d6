#include "troupe/training/loop/feed/batch_copy.hpp"

#include <utility>

namespace troupe {

batch_copy::batch_copy(const device& on)
  : on_{on},
    backend_{backend_of(on)},
    allocated_{backend_.make_event(on)},
    copied_{backend_.make_event(on)} {}

batch_copy::~batch_copy() {
  try {
    synchronize();
  } catch (...) { // a device that has failed copies nothing more
  }
  release();
}

/// Calls `fn(tensor)` for each tensor of which there is a copy.
template <class F>
void batch_copy::for_each_copied(local_batch& rows, F&& fn) {
  const auto visit = [&](tensor& x) {
    if (x.bytes() > 0 && x.device().kind == device_kind::cpu)
      fn(x);
  };
  const auto visit_batch = [&](batch& x) {
    visit(x.inputs);
    visit(x.labels);
    for (auto& one : x.others)
      if (one.name == "weights")
        visit(one.value);
  };
  visit_batch(rows.first.rows);
  for (auto& one : rows.more)
    visit_batch(one.rows);
}

void batch_copy::reserve(const local_batch& like) {
  auto rows = like;
  allocate(rows);
}

/// Allocates what is not reserved.
void batch_copy::allocate(local_batch& like) {
  std::size_t next = 0;
  bool is_new = false;
  for_each_copied(like, [&](const tensor& x) {
    if (next == memory_.size())
      memory_.emplace_back();
    auto& reserved = memory_[next++];
    if (!reserved || reserved.spec() != x.spec()) {
      reserved = {}; // before the next one is allocated
      reserved = tensor{x.spec(), on_};
      is_new = true;
    }
  });
  if (is_new)
    allocated_->record(device_backend::stream::compute);
}

void batch_copy::start(const local_batch& rows) {
  rows_ = rows;
  allocate(rows_);
  allocated_->block(device_backend::stream::copy);
  is_started_ = true;
  std::size_t next = 0;
  try {
    for_each_copied(rows_, [&](tensor& x) {
      auto target = std::exchange(memory_[next++], {});
      backend_.start_copy(on_, target.address(), {}, x.address(), x.bytes(),
                          device_backend::stream::copy);
      x = std::move(target);
    });
  } catch (...) { // some copies may have been started
    copied_->record(device_backend::stream::copy);
    throw;
  }
  copied_->record(device_backend::stream::copy);
}

const local_batch& batch_copy::rows() {
  if (!std::exchange(is_joined_, true))
    copied_->block(device_backend::stream::compute);
  return rows_;
}

void batch_copy::synchronize() {
  if (is_started_ && !copied_->is_done())
    copied_->synchronize();
}

void batch_copy::release() noexcept {
  if (is_started_ && !is_joined_)
    try {
      copied_->block(device_backend::stream::compute);
    } catch (...) { // the device has failed, which its next user is told
    }
  is_started_ = is_joined_ = false;
  memory_.clear();
  rows_ = {};
}

} // namespace troupe
