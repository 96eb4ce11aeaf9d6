#pragma once

#include "troupe/actors/group/replica_group.hpp"

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe::test {

/// The replica groups of several processes, run by threads of one process. Each
/// has some of the replicas of one group. A run begins when all have called
/// `run`.
class joint_crew : public std::enable_shared_from_this<joint_crew> {
public:
  joint_crew(std::unique_ptr<crew> all, std::uint32_t processes)
    : all_{std::move(all)}, works_(processes) {}

  /// Replica group of a process.
  std::unique_ptr<crew> of(std::uint32_t process) {
    return std::make_unique<member>(shared_from_this(), process);
  }

private:
  class member final : public crew {
  public:
    member(std::shared_ptr<joint_crew> of, std::uint32_t process)
      : of_{std::move(of)}, process_{process} {}

    std::uint32_t replicas() const override { return of_->all_->replicas(); }
    share local() const override {
      const auto count = of_->count();
      return {process_ * count, count, process_,
              static_cast<std::uint32_t>(of_->works_.size())};
    }
    std::uint64_t ahead() const override { return of_->all_->ahead(); }
    std::uint64_t run(const work& x) override { return of_->run(process_, x); }
    void stop() override { of_->all_->stop(); }
    void for_each(const std::function<void(std::uint32_t)>& fn) override {
      const auto here = local();
      for (auto id = here.first; id < here.first + here.count; ++id)
        fn(id);
    }

  private:
    std::shared_ptr<joint_crew> of_;
    std::uint32_t process_;
  };

  std::uint32_t count() const {
    return all_->replicas() / static_cast<std::uint32_t>(works_.size());
  }

  std::uint64_t run(std::uint32_t process, const work& x) {
    std::unique_lock hold{lock_};
    works_[process] = &x;
    const auto mine = runs_;
    if (++arrived_ == works_.size()) {
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
                                  [&] { return runs_ != mine; })) {
      --arrived_;
      throw failure(ec::stalled, "not all processes have called run");
    }
    if (failed_)
      std::rethrow_exception(failed_);
    return next_;
  }

  std::uint64_t run_all() {
    work joint = *works_[0];
    for (const auto* x : works_)
      if (x->first_step != joint.first_step || x->steps != joint.steps)
        throw failure(ec::protocol, "processes run different steps");
    joint.step = [this](step_context& at) {
      works_[at.replica / count()]->step(at);
    };
    joint.on_commit = [this](const commit_record& record) {
      for (const auto* x : works_)
        if (x->on_commit)
          x->on_commit(record);
    };
    return all_->run(joint);
  }

  std::unique_ptr<crew> all_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<const work*> works_; ///< Indexed by process.
  std::size_t arrived_ = 0;
  std::uint64_t runs_ = 0, next_ = 0;
  std::exception_ptr failed_;
};

} // namespace troupe::test
