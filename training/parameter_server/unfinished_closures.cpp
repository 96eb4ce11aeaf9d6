#include "troupe/training/parameter_server/unfinished_closures.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/training/parameter_server/remote_value.hpp"

#include <stdexcept>
#include <utility>

namespace troupe {

void unfinished_closures::add(bool is_limited,
                              const std::function<void()>& send) {
  lock hold{lock_};
  ++adding_;
  changed_.wait(hold, [&] {
    return has_error() || !is_limited || unfinished_ < max_unfinished_;
  });
  --adding_;
  throw_error();
  ++unfinished_;
  ++added_;
  send();
}

bool unfinished_closures::wait_for_all(
  std::optional<std::chrono::milliseconds> timeout) {
  const auto is_over = [&] { return has_error() || unfinished_ == 0; };
  lock hold{lock_};
  ++joining_;
  bool in_time = true;
  if (timeout)
    in_time = changed_.wait_for(hold, *timeout, is_over);
  else
    changed_.wait(hold, is_over);
  --joining_;
  throw_error();
  return in_time;
}

bool unfinished_closures::is_done() {
  const std::lock_guard hold{lock_};
  throw_error();
  return unfinished_ == 0;
}

void unfinished_closures::settle(const std::function<void()>& change) {
  const std::lock_guard hold{lock_};
  change();
  --unfinished_;
  notify();
}

void unfinished_closures::fail(std::exception_ptr error,
                               const std::function<void()>& change) {
  const std::lock_guard hold{lock_};
  change();
  --unfinished_;
  error_ = std::move(error);
  notify();
}

void unfinished_closures::fail_all(const std::string& why) {
  const std::lock_guard hold{lock_};
  broken_ = why;
  notify();
}

std::uint64_t unfinished_closures::added() {
  const std::lock_guard hold{lock_};
  return added_;
}

void unfinished_closures::wait(const std::function<bool()>& condition) {
  lock hold{lock_};
  ++waiting_;
  changed_.wait(hold, condition);
  --waiting_;
}

bool unfinished_closures::wait_for(const std::function<bool()>& condition,
                                   std::chrono::milliseconds timeout) {
  lock hold{lock_};
  ++waiting_;
  const bool found = changed_.wait_for(hold, timeout, condition);
  --waiting_;
  return found;
}

void unfinished_closures::throw_error() {
  if (!broken_.empty())
    throw job_error{ec::peer_lost, broken_};
  if (!error_)
    return;
  on_reported();
  std::rethrow_exception(std::exchange(error_, nullptr));
}

/// Wakes threads if one of them may go on. So a thread in `wait_for_all` is
/// woken once, not at the end of each closure.
void unfinished_closures::notify() {
  if (waiting_ > 0 || (adding_ > 0 && unfinished_ < max_unfinished_)
      || (joining_ > 0 && unfinished_ == 0) || has_error())
    changed_.notify_all();
}

void closure_result::on_ready(coordinator::payload result) {
  closures_->settle([&] {
    status_ = remote_value_status::ready;
    result_ = std::move(result);
  });
}

void closure_result::on_cancelled() {
  closures_->settle([&] {
    status_ = remote_value_status::aborted;
    error_ = std::make_exception_ptr(closure_cancelled{});
  });
}

void closure_result::on_failed(std::exception_ptr error, std::uint32_t) {
  closures_->fail(error, [&] {
    status_ = remote_value_status::aborted;
    error_ = error;
  });
}

remote_value_status closure_result::status() const {
  return closures_->read([&] { return status_; });
}

const coordinator::payload& closure_result::get() const {
  if (current_closure())
    throw std::logic_error("a closure cannot wait for the result of another "
                           "one");
  closures_->wait([&] { return status_ != remote_value_status::not_ready; });
  if (error_)
    std::rethrow_exception(error_);
  return result_;
}

} // namespace troupe
