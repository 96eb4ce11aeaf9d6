#pragma once

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/actors/protocol/group_options.hpp"

#include <atomic>
#include <stdexcept>
#include <vector>

namespace troupe {

/// Base of the groups that run on the caller's thread: they run the steps in
/// order, one at a time.
class inline_crew : public crew {
public:
  explicit inline_crew(const crew_options& options)
    : options_{options}, reports_(options.replicas) {
    for (std::uint32_t r = 0; r < options.replicas; ++r)
      commit_.contributors.push_back(r);
  }

  std::uint32_t replicas() const override { return options_.replicas; }

  std::uint64_t run(const work& x) override {
    if (running_)
      throw std::logic_error("run was called while another run is active");
    const running_flag flag{running_};
    stopping_ = false;
    use_threads(options_.threads);
    commit_.epoch = epochs_.of_run(x.first_step);
    auto step = x.first_step;
    for (; step - x.first_step < x.steps && !stopping_; ++step) {
      run_step(x.step, step, commit_.epoch);
      commit_.step = step;
      commit_.total = total(reports_);
      if (x.on_commit)
        x.on_commit(commit_);
    }
    epochs_.ended(step);
    return step;
  }

  void stop() override { stopping_ = true; }

  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    use_threads(options_.threads);
    for (std::uint32_t r = 0; r < replicas(); ++r) {
      const context_scope inside{context_of(r)};
      fn(r);
    }
  }

protected:
  virtual void run_step(const step_function& fn, std::uint64_t step,
                        std::uint64_t epoch) = 0;
  virtual context& context_of(std::uint32_t replica) = 0;

  const crew_options options_;
  /// By replica: metrics of the current step.
  std::vector<step_report> reports_;

private:
  struct running_flag {
    explicit running_flag(bool& it) : it{it} { it = true; }
    ~running_flag() { it = false; }
    bool& it;
  };

  epoch_count epochs_;
  commit_record commit_;
  bool running_ = false;
  std::atomic<bool> stopping_ = false;
};

/// Makes a group of several replicas that run in turn, each on its own fiber.
std::unique_ptr<crew> make_turns_crew(const crew_options& options);

/// Throws std::logic_error with a text that names the bucket.
[[noreturn]] void refuse_bucket(const char* what, std::uint32_t bucket,
                                const char* why);

} // namespace troupe
