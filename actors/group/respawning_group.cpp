#include "troupe/actors/group/respawning_group.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/group/job_status_source.hpp"
#include "troupe/actors/group/respawn_limit.hpp"

#include <mutex>
#include <string>
#include <utility>

namespace troupe {

namespace {

/// Asks the group that has the roles at present.
class current_status_source final : public job_status_source {
public:
  void set(std::shared_ptr<job_status_source> current) {
    const std::lock_guard hold{lock_};
    current_ = std::move(current);
  }

  job_status status(std::chrono::milliseconds timeout) override {
    const auto current = [this] {
      const std::lock_guard hold{lock_};
      return current_;
    }();
    return current ? current->status(timeout) : job_status{};
  }

private:
  std::mutex lock_;
  std::shared_ptr<job_status_source> current_;
};

class respawning_group final : public replica_group {
public:
  respawning_group(std::function<std::unique_ptr<replica_group>()> make,
                   respawn_options options)
    : make_{std::move(make)},
      options_{std::move(options)},
      limit_{options_.max_respawns, options_.window},
      group_{make_()} {
    status_source_->set(group_->status_source());
  }

  const local_placement& replica_placement() const override {
    return group_->replica_placement();
  }
  std::uint64_t max_steps_ahead() const override {
    return group_->max_steps_ahead();
  }
  std::uint64_t run(const run_request& request) override {
    unhandled_end_.clear();
    try {
      return group_->run(request);
    } catch (const job_error& e) {
      // Within a process, nothing else is unreachable.
      const bool has_nccl_failed = e.code == ec::unreachable;
      if ((is_end_of_role(e.report()) || has_nccl_failed)
          && e.report().inside.empty())
        unhandled_end_ = e.what();
      throw;
    }
  }
  void stop() override { group_->stop(); }
  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    group_->for_each(fn);
  }
  std::shared_ptr<job_status_source> status_source() const override {
    return status_source_;
  }
  std::function<void(const failure_report&)> run_terminator() override {
    return group_->run_terminator();
  }

  bool enter_next_view(const std::optional<view_change::job_position>& position,
                       std::chrono::milliseconds) override {
    if (unhandled_end_.empty())
      return false;
    if (!limit_.on_end(options_.now().time_since_epoch(), position,
                       std::exchange(unhandled_end_, {})))
      throw job_error(ec::peer_lost, limit_.describe());
    // A new group, because the messages of the old one must not reach the new
    // roles.
    auto next = make_();
    status_source_->set(next->status_source());
    group_ = std::move(next);
    return true;
  }

private:
  const std::function<std::unique_ptr<replica_group>()> make_;
  const respawn_options options_;
  respawn_limit limit_;
  const std::shared_ptr<current_status_source> status_source_ =
    std::make_shared<current_status_source>();
  std::unique_ptr<replica_group> group_;
  /// Why the last run has failed. Empty: since the roles were made, none has
  /// ended and NCCL has not failed.
  std::string unhandled_end_;
};

} // namespace

std::unique_ptr<replica_group>
make_respawning_group(std::function<std::unique_ptr<replica_group>()> make,
                      respawn_options options) {
  return std::make_unique<respawning_group>(std::move(make),
                                            std::move(options));
}

} // namespace troupe
