#include "troupe/actors/actor_crew.hpp"

#include "troupe/actors/crew_place.hpp"
#include "troupe/actors/runtime.hpp"
#include "troupe/actors/step_gate.hpp"
#include "troupe/actors/types.hpp"
#include "troupe/actors/work_desk.hpp"
#include "troupe/strategies/blame.hpp"

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

constexpr std::uint32_t reducer_count = 4;

/// Whoever is seated in it is in no step any more, for good.
constexpr auto last_epoch = std::numeric_limits<std::uint64_t>::max();

/// Fills in what was left to choose.
crew_options chosen(crew_options x, const crew_place& place) {
  const auto cores = std::max(std::thread::hardware_concurrency(), 1u);
  using how = crew_options::reducers;
  if (x.replicas == 1)
    x.reducing = how::hosted; // there is nothing to add
  else if (x.reducing == how::automatic)
    x.reducing = std::uint64_t{x.replicas} * std::uint64_t(x.threads) >= cores
                   ? how::hosted
                   : how::own;
  if (place.by_mail || place.on == threads::shared)
    x.polling = 0us;
  else if (x.polling < 0us)
    x.polling = x.replicas <= cores ? 50us : 0us;
  return x;
}

class actor_crew final : public crew {
public:
  actor_crew(const crew_place& place, const crew_options& options)
    : options_{options},
      desk_{std::make_shared<work_desk>(
        place.waiting ? place.waiting : std::make_shared<sleeping_waiter>())} {
    cast_all(place);
  }

  ~actor_crew() override {
    const auto roles = std::exchange(roles_, {});
    for (const auto& who : roles) // the owner first
      caf::anon_send_exit(caf::actor_cast<caf::actor>(who),
                          caf::exit_reason::user_shutdown);
    chief_ = nullptr;
    replicas_.clear(); // our handles must not be what keeps them alive
    desk_->await_ends(roles.size(), 5s);
  }

  std::uint32_t replicas() const override { return options_.replicas; }

  std::uint64_t run(const work& x) override {
    const auto number = desk_->begin();
    const auto gate = std::make_shared<step_gate>(options_.replicas, desk_);
    const step_function gated = [gate, fn = x.step](step_context& at) {
      const step_gate::pass inside{*gate, at.replica};
      fn(at);
    };
    caf::anon_send(chief_, atom::run_v, x.first_step, x.steps,
                   step_ref{std::make_shared<const step_function>(gated), {}},
                   listener_ref{desk_, number});
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

  void stop() override { caf::anon_send(chief_, atom::stop_v); }

  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    const auto number = desk_->begin_visits(options_.replicas);
    const auto gate = std::make_shared<step_gate>(options_.replicas, desk_);
    const std::function<void(std::uint32_t)> gated = [gate,
                                                      fn](std::uint32_t r) {
      const step_gate::pass inside{*gate, r};
      fn(r);
    };
    const auto shared =
      std::make_shared<const std::function<void(std::uint32_t)>>(gated);
    for (const auto& who : replicas_)
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
  static std::string still_inside(std::span<const std::uint32_t> ids) {
    return "; " + commit::replicas_named(ids)
           + (ids.size() == 1 ? " is" : " are")
           + " still inside what it was given to call, so what that uses must "
             "be kept";
  }

  /// Longest that a failed run waits for those inside the step function.
  std::chrono::milliseconds farewell() const {
    return std::max<std::chrono::milliseconds>(2 * options_.patience, 1s);
  }

  /// @returns who did not leave the step function.
  std::vector<std::uint32_t> see_off(step_gate& gate) {
    if (desk_->chief_ended()) // then nobody else tells them to leave
      for (const auto& who : replicas_)
        caf::anon_send(who, commit::seat{last_epoch});
    return gate.close(farewell());
  }

  std::uint64_t follow(const work& x, std::uint64_t number) {
    // The chief itself gives up after one patience, a probe and a farewell.
    const auto longest = 3 * options_.patience + 5s;
    std::exception_ptr thrown; // by on_commit; the granted steps still run on
    const auto tell = [&](const commit_record& record) {
      try {
        if (x.on_commit && !thrown)
          x.on_commit(record);
      } catch (...) {
        thrown = std::current_exception();
        stop();
      }
      caf::anon_send(chief_, atom::heard_v, number, record.step + 1);
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
      throw failure(ec::stalled, "the chief said nothing for "
                                   + std::to_string(longest.count()) + " ms");
    return *next;
  }

  void cast_all(const crew_place& place) {
    const auto own =
      options_.reducing == crew_options::reducers::own ? reducer_count : 0;
    const auto by =
      std::make_shared<direct_transport>(options_.replicas, place.by_mail);
    const auto box = [&](party who) { return outbox{who, by, place.faults}; };
    auto& sys = place.system;
    const auto add = [&](const party& who, const auto& handle) {
      const auto it = caf::actor_cast<caf::actor>(handle);
      const bool leads = who.what == party::role::chief;
      if (!leads)
        by->place(who, it);
      it->attach_functor([desk = desk_, leads] { desk->one_ended(leads); });
      roles_.push_back(it.address());
      if (place.on_spawn)
        place.on_spawn(who, it);
    };
    const party first{party::role::chief, 0};
    chief_ = sys.spawn(chief, options_.replicas, options_.patience, box(first));
    add(first, chief_);
    cast_ref all;
    for (std::uint32_t i = 0; i < own; ++i) {
      const party who{party::role::reducer, i};
      all.reducers.push_back(
        sys.spawn(reducer, i, options_.replicas, box(who), chief_));
      add(who, all.reducers.back());
    }
    for (std::uint32_t i = 0; i < options_.replicas; ++i) {
      replicas_.push_back(
        spawn(sys, place.on, replica,
              replica_wiring{i, options_, 1, own, by, place.faults}, chief_));
      add({party::role::replica, i}, replicas_.back());
    }
    all.replicas = replicas_;
    caf::anon_send(chief_, std::move(all));
    forget_logger();
  }

  const crew_options options_;
  std::shared_ptr<work_desk> desk_;
  chief_actor chief_;
  std::vector<replica_actor> replicas_;
  std::vector<caf::actor_addr> roles_; ///< All of them, the chief first.
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
