#pragma once

#include "troupe/actors/core/failure_text.hpp"
#include "troupe/actors/group/replica_group.hpp"

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe::test {

/// The replica groups of several processes; a thread stands for each process.
/// Each group has some of the replicas of one underlying group. A run begins
/// when `run` of every group has been called.
class combined_group : public std::enable_shared_from_this<combined_group> {
public:
  combined_group(std::unique_ptr<replica_group> all, std::uint32_t processes)
    : group_{std::move(all)}, requests_(processes) {}

  /// Returns the replica group of a process.
  std::unique_ptr<replica_group> group_of(std::uint32_t process) {
    return std::make_unique<process_group>(shared_from_this(), process);
  }

private:
  class process_group final : public replica_group {
  public:
    process_group(std::shared_ptr<combined_group> combined,
                  std::uint32_t process)
      : combined_{std::move(combined)},
        process_{process},
        placement_{placement::contiguous(std::vector(
                     combined_->requests_.size(), combined_->count())),
                   process} {}

    const local_placement& replica_placement() const override {
      return placement_;
    }
    std::uint64_t max_steps_ahead() const override {
      return combined_->group_->max_steps_ahead();
    }
    std::uint64_t run(const run_request& x) override {
      return combined_->run(process_, x);
    }
    void stop() override { combined_->group_->stop(); }
    void for_each(const std::function<void(std::uint32_t)>& fn) override {
      for (const auto id : placement_.replicas())
        fn(id);
    }

  private:
    std::shared_ptr<combined_group> combined_;
    std::uint32_t process_;
    local_placement placement_;
  };

  std::uint32_t count() const {
    return group_->replicas() / static_cast<std::uint32_t>(requests_.size());
  }

  std::uint64_t run(std::uint32_t process, const run_request& x) {
    std::unique_lock hold{lock_};
    requests_[process] = &x;
    const auto run_number = runs_;
    if (++arrived_ == requests_.size()) {
      try {
        next_ = run_all();
        failed_ = nullptr;
      } catch (...) {
        failed_ = std::current_exception();
      }
      arrived_ = 0;
      ++runs_;
      changed_.notify_all();
    } else if (!changed_.wait_for(hold, std::chrono::seconds{20},
                                  [&] { return runs_ != run_number; })) {
      --arrived_;
      throw job_error(ec::stalled, "not all processes have called run");
    }
    if (failed_)
      std::rethrow_exception(failed_);
    return next_;
  }

  requested_run request_of(std::uint32_t process) const {
    const auto& x = *requests_[process];
    return {process, runs_ + 1, x.first_step, x.first_step + x.steps, x.call};
  }

  named_processes names() const {
    named_processes out{.names = {}};
    for (std::uint32_t p = 0; p < requests_.size(); ++p)
      out.names.push_back("worker " + std::to_string(p));
    return out;
  }

  std::uint64_t run_all() {
    run_request joint = *requests_[0];
    for (std::uint32_t p = 1; p < requests_.size(); ++p) {
      const auto& other = *requests_[p];
      if (other.first_step != joint.first_step || other.steps != joint.steps
          || !are_same(other.call, joint.call))
        throw to_job_error({.kind = failure_kind::runs_differ,
                            .code = ec::protocol,
                            .requests = {request_of(0), request_of(p)}},
                           names());
    }
    joint.step = [this](step_context& at) {
      requests_[at.replica / count()]->step(at);
    };
    joint.on_commit = [this](const commit_record& record) {
      for (const auto* x : requests_)
        if (x->on_commit)
          x->on_commit(record);
    };
    return group_->run(joint);
  }

  std::unique_ptr<replica_group> group_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<const run_request*> requests_; ///< Indexed by process.
  std::size_t arrived_ = 0;
  std::uint64_t runs_ = 0, next_ = 0;
  std::exception_ptr failed_;
};

} // namespace troupe::test
