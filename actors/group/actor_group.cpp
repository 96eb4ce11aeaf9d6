#include "troupe/actors/group/actor_group.hpp"

#include "troupe/actors/group/role_spawner.hpp"
#include "troupe/actors/group/step_gate.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/strategies/step_commit/stall_report.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <thread>

namespace troupe {

namespace {

using namespace std::chrono_literals;

/// A replica that is configured with this generation has left all steps and
/// runs no other.
constexpr auto last_epoch = std::numeric_limits<std::uint64_t>::max();

/// Replaces automatic options by values.
crew_options chosen(crew_options x, const crew_place& place) {
  const auto cores = std::max(std::thread::hardware_concurrency(), 1u);
  using how = crew_options::reducers;
  const auto here = share_of(place, x);
  if (x.lease == 0)
    x.lease =
      here.processes > 1 ? multi_process_step_window : default_step_window;
  if (here.processes > 1)
    x.reducing = how::hosted; // the lane backend adds
  if (x.replicas == 1)
    x.reducing = how::hosted; // there is nothing to add
  else if (x.reducing == how::automatic)
    x.reducing = std::uint64_t{x.replicas} * std::uint64_t(x.threads) >= cores
                   ? how::hosted
                   : how::own;
  if (place.by_mail || place.on == threads::shared)
    x.polling = 0us;
  else if (x.polling < 0us)
    x.polling = here.count <= cores ? 50us : 0us;
  return x;
}

class actor_crew final : public crew {
public:
  actor_crew(const crew_place& place, const crew_options& options)
    : options_{options},
      here_{share_of(place, options)},
      desk_{std::make_shared<work_desk>(
        place.waiting ? place.waiting : std::make_shared<sleeping_waiter>())},
      cast_{cast_crew(place, options_, desk_, book_)} {}

  ~actor_crew() override {
    const auto roles = std::exchange(cast_.roles, {});
    for (const auto& who : roles) // the chief or the local agent is the first
      caf::anon_send_exit(caf::actor_cast<caf::actor>(who),
                          caf::exit_reason::user_shutdown);
    cast_.front = nullptr;
    cast_.replicas.clear(); // these handles must not keep the roles alive
    desk_->await_ends(roles.size(), 5s);
    end_wires(roles.size());
  }

  std::uint32_t replicas() const override { return options_.replicas; }
  share local() const override { return here_; }
  std::uint64_t ahead() const override { return options_.lease; }

  std::uint64_t run(const work& x) override {
    const auto number = desk_->begin();
    const auto gate = std::make_shared<step_gate>(options_.replicas, desk_);
    const step_function gated = [gate, fn = x.step](step_context& at) {
      const step_gate::pass inside{*gate, at.replica};
      fn(at);
    };
    const page at{*book_, "run " + std::to_string(number),
                  std::make_shared<const step_function>(gated)};
    caf::anon_send(
      cast_.front,
      muster::join{here_.process, number, x.first_step, x.steps,
                   std::uint64_t(std::max(x.join_timeout, 0ms).count())},
      at.ref);
    try {
      return follow(x, number);
    } catch (const failure& e) {
      const auto left = see_off(*gate);
      if (left.empty())
        throw;
      throw failure(e.code, e.what() + still_inside(left));
    } catch (...) {
      see_off(*gate);
      throw;
    }
  }

  void stop() override {
    if (const auto run = desk_->running())
      caf::anon_send(cast_.front, muster::stop{here_.process, *run});
  }

  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    const auto number = desk_->begin_visits(here_);
    const auto gate = std::make_shared<step_gate>(options_.replicas, desk_);
    const std::function<void(std::uint32_t)> gated = [gate,
                                                      fn](std::uint32_t r) {
      const step_gate::pass inside{*gate, r};
      fn(r);
    };
    const auto shared =
      std::make_shared<const std::function<void(std::uint32_t)>>(gated);
    for (const auto& who : cast_.replicas)
      caf::anon_send(who, visit_ref{shared, desk_, number});
    try {
      desk_->follow_visits(options_.patience);
    } catch (const failure& e) {
      const auto left = gate->close(farewell());
      if (left.empty())
        throw;
      throw failure(e.code, e.what() + still_inside(left));
    }
  }

private:
  /// Registers a step function under its name while this object exists.
  struct page {
    page(step_book& in, std::string name,
         std::shared_ptr<const step_function> fn)
      : in{in}, ref{fn, std::move(name)} {
      in.put(ref.name, std::move(fn));
    }
    ~page() { in.drop(ref.name); }
    page(const page&) = delete;
    page& operator=(const page&) = delete;

    step_book& in;
    step_ref ref;
  };

  /// Waits for the end of all proxies and skeletons. A skeleton notifies its
  /// peer and terminates after its role. A proxy terminates when its last
  /// handle is released, after it has handled the messages it got before.
  void end_wires(std::size_t ended) {
    ended += cast_.proxies.size() + cast_.gates.size();
    for (const auto* all : {&cast_.proxies, &cast_.gates})
      for (const auto& who : *all)
        who->attach_functor([desk = desk_] { desk->one_ended(false); });
    cast_.proxies.clear();
    if (!desk_->await_ends(ended, 5s))
      for (const auto& who : cast_.gates)
        caf::anon_send_exit(who, caf::exit_reason::user_shutdown);
    forget_logger();
  }

  static std::string still_inside(std::span<const std::uint32_t> ids) {
    return "; " + commit::replicas_named(ids)
           + (ids.size() == 1 ? " is" : " are")
           + " still inside the caller's function; keep the objects that it "
             "refers to";
  }

  /// Timeout of the wait for replicas inside the step function of a failed run.
  std::chrono::milliseconds farewell() const {
    return std::max<std::chrono::milliseconds>(2 * options_.patience, 1s);
  }

  /// Waits until no replica is inside the step function.
  /// @returns the replicas that did not leave it.
  std::vector<std::uint32_t> see_off(step_gate& gate) {
    if (desk_->chief_ended()) // no chief makes the replicas leave their steps
      for (const auto& who : cast_.replicas)
        caf::anon_send(who, commit::seat{last_epoch});
    return gate.close(farewell());
  }

  std::uint64_t follow(const work& x, std::uint64_t number) {
    // After the processes have joined, the chief aborts a run without progress
    // after the step timeout, a probe and the end of the current steps.
    const auto longest =
      std::max(x.join_timeout, 0ms) + 3 * options_.patience + 5s;
    std::exception_ptr thrown; // by on_commit; granted steps are still run
    const auto often = commit::at_once(options_.lease);
    const auto tell = [&](const commit_record& record, bool more) {
      try {
        if (x.on_commit && !thrown)
          x.on_commit(record);
      } catch (...) {
        thrown = std::current_exception();
        stop();
      }
      if (!more || (record.step + 1) % often == 0)
        caf::anon_send(cast_.front,
                       run_heard{here_.process, number, record.step + 1});
    };
    std::optional<std::uint64_t> next;
    try {
      next = desk_->follow(tell, longest);
    } catch (const failure&) {
      if (!thrown)
        throw;
    }
    if (thrown)
      std::rethrow_exception(thrown);
    if (!next)
      throw failure(ec::stalled, "no message from the chief for "
                                   + std::to_string(longest.count()) + " ms");
    return *next;
  }

  const crew_options options_;
  const share here_;
  std::shared_ptr<work_desk> desk_;
  std::shared_ptr<step_book> book_ = std::make_shared<step_book>();
  crew_cast cast_;
};

} // namespace

std::unique_ptr<crew> make_crew(const crew_place& place,
                                const crew_options& options) {
  check(options);
  return std::make_unique<actor_crew>(place, chosen(options, place));
}

std::unique_ptr<crew> make_crew(runtime& in, const crew_options& options) {
  return make_crew({.system = in.system()}, options);
}

} // namespace troupe
