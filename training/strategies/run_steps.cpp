#include "troupe/tensors/context.hpp"
#include "troupe/training/strategies/communication_conversions.hpp"
#include "troupe/training/strategies/replica_context.hpp"
#include "troupe/training/strategies/strategy_state.hpp"

#include <exception>
#include <mutex>
#include <stdexcept>

namespace troupe {

namespace {

/// The replica context of a step of a replica group.
class crew_replica final : public replica_context {
public:
  crew_replica(step_context& at, std::size_t bytes_per_pack)
    : replica_context{at.replica, at.replicas, bytes_per_pack}, at_{at} {}

private:
  void start_sum(std::uint32_t number, const tensor& x) override {
    at_.contribute(number, x);
  }
  tensor finish_sum(std::uint32_t number) override { return at_.sum(number); }
  tensors gather(std::uint32_t number, const tensor& x) override {
    return at_.gather(number, x);
  }
  void begin_call(const call_options& x) override {
    usual_ = at_.said;
    at_.said = terms_of(x, usual_.way);
  }
  void end_call() override { at_.said = usual_; }

  step_context& at_;
  terms usual_;
};

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw std::logic_error(what + " was called " + why);
}

} // namespace

std::shared_ptr<strategy_state> state_over(std::unique_ptr<crew> members,
                                           std::string name,
                                           std::vector<device> devices,
                                           int threads) {
  auto state = std::make_shared<strategy_state>();
  state->name = std::move(name);
  state->devices = std::move(devices);
  state->replicas = members->replicas();
  state->here = members->local();
  state->copies = state->here.count;
  state->threads = threads;
  state->members = std::move(members);
  return state;
}

namespace {

struct working_flag {
  explicit working_flag(std::atomic<bool>& it) : it{it} {}
  ~working_flag() { it = false; }
  std::atomic<bool>& it;
};

/// State that a call of `run_steps` shares with the replicas. A replica that is
/// stuck in the step function outlives the call: it keeps the function, and
/// what the function owns, until it leaves.
struct shared_run {
  shared_run(const step_function& x, std::size_t replicas)
    : errors(replicas), fn{std::make_shared<const step_function>(x)} {}

  /// @returns null if the call has ended: no replica may enter any more.
  std::shared_ptr<const step_function> function() {
    const std::lock_guard hold{lock};
    return fn;
  }

  /// Destroys the function when no replica is inside. Without this call the
  /// group would keep the function object beyond the run.
  void end() {
    std::shared_ptr<const step_function> last;
    const std::lock_guard hold{lock};
    last.swap(fn);
  }

  std::mutex lock;
  /// One entry per replica of this process.
  std::vector<std::exception_ptr> errors;

private:
  std::shared_ptr<const step_function> fn;
};

struct end_of_run {
  explicit end_of_run(shared_run& it) : it{it} {}
  ~end_of_run() { it.end(); }
  shared_run& it;
};

} // namespace

std::uint64_t run_work(const std::shared_ptr<strategy_state>& on,
                       const work& x) {
  if (const auto* place = current_place(); place && place->replica)
    refuse("a run of a strategy", "in a replica's function: a step cannot run "
                                  "another one inside it");
  if (on->working.exchange(true))
    refuse("a run of the " + on->name + " strategy",
           "while another run of it is active; a strategy runs one at a time");
  const working_flag flag{on->working};
  const auto shared = std::make_shared<shared_run>(x.step, on->here.count);
  const end_of_run end{*shared};
  auto placed = x;
  // Weak: replicas keep the function, and the strategy owns the replicas.
  placed.step = [owner = std::weak_ptr{on}, shared](step_context& at) {
    const auto on = owner.lock();
    const auto fn = shared->function();
    if (!on || !fn)
      throw superseded{};
    crew_replica self{at, on->bytes_per_pack};
    const auto index = at.replica - on->here.first;
    current_context().replica = index;
    const place_in_job here{on, &self};
    const place_scope inside{here};
    try {
      (*fn)(at);
    } catch (const superseded&) {
      throw;
    } catch (...) {
      const std::lock_guard hold{shared->lock};
      shared->errors[index] = std::current_exception();
      throw;
    }
  };
  try {
    return on->members->run(placed);
  } catch (...) {
    const std::lock_guard hold{shared->lock};
    for (const auto& error : shared->errors)
      if (error) // The exception as it was thrown, not as the group reports it.
        std::rethrow_exception(error);
    throw;
  }
}

} // namespace troupe
