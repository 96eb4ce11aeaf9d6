#include "troupe/simulation/simulated_processes.hpp"

#include "troupe/actors/core/fiber.hpp"
#include "troupe/actors/group/world.hpp"
#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/actors/protocol/group_options.hpp"
#include "troupe/simulation/simulated_group.hpp"
#include "troupe/simulation/simulated_wait.hpp"
#include "troupe/tensors/context.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <stdexcept>

namespace troupe::simulation {

namespace {

/// Stack size of a fiber that runs a program, possibly a whole training.
constexpr std::size_t stack_bytes = std::size_t{8} << 20;

/// Applies the message faults of a plan to packets. After a delayed packet it
/// wakes the sending process, which then sends the packet.
class parcel_faults final : public fault_seam {
public:
  parcel_faults(fault_dice& by, simulated_network& net, std::uint32_t process)
    : by_{by}, net_{net}, process_{process} {}

  fate decide(const party& from, const party& to, subject what,
              std::uint64_t epoch, std::uint64_t step) override {
    const auto out = by_.decide(from, to, what, epoch, step);
    if (out.delay > std::chrono::nanoseconds{0})
      net_.wake_later(process_, out.delay);
    return out;
  }

private:
  fault_dice& by_;
  simulated_network& net_;
  std::uint32_t process_;
};

void check(const crew_options& options, const spread& over) {
  troupe::check(options);
  if (over.processes < 1 || over.processes > options.replicas)
    throw std::invalid_argument(
      std::to_string(over.processes) + " processes for "
      + std::to_string(options.replicas)
      + " replicas: each process hosts at least one; give 1 to "
      + std::to_string(options.replicas));
}

} // namespace

struct processes::impl {
  impl(sim& in, const crew_options& options, const spread& over,
       fault_dice* faults)
    : in{in},
      faults{faults},
      waits{std::make_shared<stepping_waiter>(in, faults)},
      net{in, over.processes, over.network} {
    for (std::uint32_t p = 0; p < over.processes; ++p)
      where.names.push_back("process " + std::to_string(p));
    for (std::uint32_t p = 0; p <= over.processes; ++p)
      where.first.push_back(p * options.replicas / over.processes);
    if (faults)
      faults->spread(where.first);
    waits->over(&net);
    for (std::uint32_t p = 0; p < over.processes; ++p)
      crews.push_back(make(p, options));
  }

  std::unique_ptr<crew> make(std::uint32_t me, crew_options options) {
    auto place = place_in(in, waits, faults);
    const auto replicas = std::make_shared<std::vector<caf::actor_addr>>();
    place.on_spawn = [waits = waits, replicas](const party& who,
                                               const caf::actor& it) {
      waits->spawned(who, it);
      if (who.what == party::role::replica)
        replicas->push_back(it.address());
    };
    const auto wake = [replicas] {
      for (const auto& who : *replicas)
        if (const auto it = caf::actor_cast<caf::actor>(who))
          caf::anon_send(it, atom::wake_v);
    };
    net.on_news(me, wake);
    place.with = company_of(me, wake);
    options.polling = std::chrono::microseconds{0};
    return troupe::make_crew(place, options);
  }

  std::shared_ptr<company> company_of(std::uint32_t me,
                                      const std::function<void()>& wake) {
    auto out = std::make_shared<company>();
    out->where = where;
    out->me = me;
    out->epoch = 1;
    const auto all = out->processes();
    out->wires.resize(all);
    std::vector<peer_lanes> lanes(all);
    for (std::uint32_t p = 0; p < all; ++p)
      if (p != me)
        lanes[p] = net.lanes(me, p);
    for (std::uint32_t p = 0; p < all; ++p)
      if (p != me && (p == 0 || me == 0))
        out->wires[p] = net.connection(me, p);
    data_plane_options how;
    how.names = where.names;
    how.wake = wake;
    how.now = [&in = in] {
      return std::chrono::steady_clock::time_point{in.elapsed()};
    };
    if (faults)
      how.faults = std::make_shared<parcel_faults>(*faults, net, me);
    out->plane = std::make_shared<data_plane>(exchange::layout{where.first, me},
                                              std::move(lanes), how);
    return out;
  }

  sim& in;
  fault_dice* faults;
  std::shared_ptr<stepping_waiter> waits;
  simulated_network net;
  commit::places where;
  std::vector<std::unique_ptr<crew>> crews; ///< Last: they use all the others.
};

processes::processes(sim& in, const crew_options& options, const spread& over,
                     fault_dice* faults) {
  check(options, over);
  impl_ = std::make_unique<impl>(in, options, over, faults);
}

processes::~processes() = default;

std::uint32_t processes::count() const {
  return static_cast<std::uint32_t>(impl_->crews.size());
}

crew& processes::of(std::uint32_t process) {
  return *impl_->crews.at(process);
}

simulated_network& processes::network() {
  return impl_->net;
}

std::vector<std::exception_ptr>
processes::each(const std::function<void(std::uint32_t)>& program) {
  std::vector<std::unique_ptr<fiber>> all;
  for (std::uint32_t p = 0; p < count(); ++p)
    all.push_back(std::make_unique<fiber>([&program, p] { program(p); },
                                          p == 0 ? &current_context() : nullptr,
                                          stack_bytes));
  for (bool left = true; left;) {
    left = false;
    for (const auto& x : all)
      if (!x->done()) {
        x->resume();
        left |= !x->done();
      }
    impl_->waits->give_up(left && !impl_->waits->go_on());
  }
  impl_->waits->give_up(false);
  std::vector<std::exception_ptr> out;
  for (const auto& x : all)
    out.push_back(x->error());
  return out;
}

// -- one group over all processes ---------------------------------------------

namespace {

class joint_crew final : public crew {
public:
  joint_crew(sim& in, const crew_options& options, const spread& over,
             fault_dice* faults)
    : all_{in, options, over, faults} {}

  std::uint32_t replicas() const override { return leader().replicas(); }
  std::uint64_t ahead() const override { return leader().ahead(); }
  void stop() override { leader().stop(); }

  std::uint64_t run(const work& x) override {
    std::uint64_t next = 0;
    const auto ends = all_.each([&](std::uint32_t p) {
      auto mine = x;
      if (p > 0)
        mine.on_commit = {}; // the leader's receives all commits
      const auto end = all_.of(p).run(mine);
      if (p == 0)
        next = end;
    });
    for (const bool cut : {false, true})
      for (std::uint32_t p = 0; p < ends.size(); ++p)
        if (ends[p] && all_.network().is_cut(p) == cut)
          std::rethrow_exception(ends[p]);
    return next;
  }

  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    for (std::uint32_t p = 0; p < all_.count(); ++p)
      all_.of(p).for_each(fn);
  }

private:
  crew& leader() const { return all_.of(0); }

  mutable processes all_;
};

} // namespace

std::unique_ptr<crew> make_crew(sim& in, const crew_options& options,
                                const spread& over, fault_dice* faults) {
  if (over.processes == 1)
    return make_crew(in, options, faults);
  return std::make_unique<joint_crew>(in, options, over, faults);
}

} // namespace troupe::simulation
