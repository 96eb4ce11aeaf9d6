#include "troupe/training/strategies/calls/loop_call.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/training/strategies/calls/copy_audit.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"
#include "troupe/training/strategies/calls/job_call.hpp"
#include "troupe/training/strategies/calls/step_results.hpp"
#include "troupe/training/strategies/replica/call_comparison.hpp"
#include "troupe/training/strategies/replica/replica_context.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"
#include "troupe/training/strategies/replica/worker_difference.hpp"

#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// First byte of the results of a step. The texts that processes gather between
/// steps begin with 0 or 1 (host_collectives.cpp).
constexpr std::uint8_t result_mark = 2;

[[noreturn]] void throw_mismatch() {
  throw job_error(ec::protocol,
                  "another worker has made another call: all workers must make "
                  "the same calls in the same order");
}

/// Encoded results of all replicas, by replica.
using result_texts = std::vector<std::string>;

/// What a replica gathers at the end of a step: the mark, the hash of the
/// collectives that it has called (call_comparison.hpp), and a text.
constexpr std::size_t header_bytes = 1 + sizeof(std::uint64_t);

tensor to_bytes(std::uint64_t calls, const std::string& text) {
  tensor out{{static_cast<std::int64_t>(header_bytes + text.size())},
             dtype::uint8};
  out.mutable_data<std::uint8_t>()[0] = result_mark;
  std::memcpy(out.raw() + 1, &calls, sizeof(calls));
  std::memcpy(out.raw() + header_bytes, text.data(), text.size());
  return out;
}

void check_mark(const tensor& bytes) {
  if (bytes.type() != dtype::uint8 || bytes.bytes() < header_bytes
      || bytes.data<std::uint8_t>()[0] != result_mark)
    throw_mismatch();
}

std::uint64_t calls_in(const tensor& bytes) {
  check_mark(bytes);
  std::uint64_t out = 0;
  std::memcpy(&out, bytes.raw() + 1, sizeof(out));
  return out;
}

std::string text_in(const tensor& bytes) {
  check_mark(bytes);
  return {reinterpret_cast<const char*>(bytes.raw()) + header_bytes,
          bytes.bytes() - header_bytes};
}

/// Gathers a text at the end of a step, and checks that all replicas have
/// called the same collectives in the step.
/// @returns the tensors of all replicas, for `text_in`.
/// @errors throws std::logic_error on all replicas as `check_equal_calls`.
tensors gather_at_end(replica_context& self, const std::string& text) {
  const auto calls = self.calls();
  const auto hash = hash_of(calls);
  auto all = self.all_gather_list(to_bytes(hash, text));
  // All replicas see the same hashes, so all or none gather the calls.
  bool is_equal = true;
  for (const auto& one : all)
    is_equal &= calls_in(one) == calls_in(all.front());
  if (is_equal)
    return all;
  std::vector<std::string> texts;
  for (const auto& one :
       self.all_gather_list(to_bytes(hash, encode_calls(calls))))
    texts.push_back(text_in(one));
  check_equal_calls(texts);
  throw_mismatch();
}

/// Number that a call of `run` has for the user: that of the iteration of the
/// loop, or else that of the call.
std::uint64_t step_of_run(const strategy_state& state) {
  return state.iteration.value_or(state.runs);
}

/// Keeps what a step of a loop may change in this process.
void keep_state(const strategy_state& state) {
  for (const auto& one : state.observers)
    if (const auto observer = one.lock())
      observer->keep_state();
}

/// Undoes a step. No effect if a replica may still change the state.
void restore_state(const strategy_state& state) {
  if (state.has_stuck_replica)
    return;
  for (const auto& one : state.observers)
    if (const auto observer = one.lock())
      observer->restore_state();
}

/// Describes what this process has not compared with the others yet: the data
/// of epochs that were begun since the last step.
std::string unchecked_description(const strategy_state& state) {
  std::string out;
  for (const auto& one : state.observers)
    if (const auto observer = one.lock())
      out += observer->unchecked_description();
  return out;
}

void note_checked(const strategy_state& state) {
  for (const auto& one : state.observers)
    if (const auto observer = one.lock())
      observer->on_checked();
}

/// Checks the descriptions of all replicas, by replica. An empty one is not
/// compared: its process has made a step since the epoch began.
/// @param names of the processes.
void check_descriptions(const std::vector<std::string>& all,
                        const placement& job,
                        const std::vector<std::string>& names) {
  std::size_t first = 0;
  while (first < all.size() && all[first].empty())
    ++first;
  for (std::size_t r = first + 1; r < all.size(); ++r)
    if (!all[r].empty() && all[r] != all[first]) {
      const auto worker = [&](std::size_t replica) {
        return names.at(job.process_of(static_cast<std::uint32_t>(replica)));
      };
      throw std::invalid_argument(
        worker(r) + " has " + difference(worker(first), all[first], all[r])
        + "; all workers must give distribute the same data");
    }
}

std::vector<std::string> process_names(const strategy_state& state) {
  std::vector<std::string> out;
  for (std::uint32_t p = 0; p < state.placement.job.processes(); ++p)
    out.push_back(state.group->process_name(p));
  return out;
}

/// One step of a loop as a call of the job.
class loop_step {
public:
  loop_step(const std::shared_ptr<strategy_state>& state,
            const std::function<void(replica_context&)>& fn,
            const std::shared_ptr<step_results>& results)
    : state_{state}, fn_{fn}, results_{results} {}

  void make() {
    job_call call;
    call.name = "run";
    call.run = [this] {
      if (!texts_)
        attempt();
      return encode_text(*texts_);
    };
    call.complete = [this](const std::string& result) {
      if (!texts_) // it would lack the state
        throw_mismatch();
      read(result);
    };
    call.steps = [this] { return texts_ ? 1u : 0u; };
    call.report = [this] {
      return texts_ ? encode_text(*texts_) : std::string{};
    };
    call.resume = [this](const call_report& latest) {
      if (latest.steps > 0 && !texts_)
        read(latest.text);
    };
    try {
      make_call(state_, call);
    } catch (...) {
      if (texts_)
        restore_state(*state_);
      throw;
    }
    note_checked(*state_);
    results_->set_gathered(std::move(*texts_));
  }

private:
  struct gathered_texts {
    result_texts texts;
    bool is_complete = false;
  };

  /// Makes the step with the replicas that this process hosts now.
  void attempt() {
    keep_state(*state_);
    results_->clear();
    const auto gathered = std::make_shared<gathered_texts>();
    try {
      run_one_step(
        state_,
        [fn = fn_, results = results_, gathered, placed = state_->placement,
         names = process_names(*state_),
         unchecked = unchecked_description(*state_)](replica_context& self) {
          fn(self);
          const auto id = self.replica_id();
          const auto all =
            gather_at_end(self, encode_text(results->encoded(id), unchecked));
          result_texts texts(all.size()), descriptions(all.size());
          for (std::size_t r = 0; r < all.size(); ++r)
            if (!decode_text(text_in(all[r]), texts[r], descriptions[r]))
              throw_mismatch();
          check_descriptions(descriptions, placed.job, names);
          if (id != placed.replicas().front())
            return;
          gathered->texts = std::move(texts);
          gathered->is_complete = true;
        },
        {}, step_of_run(*state_));
    } catch (...) {
      // A stuck replica may still use what it refers to.
      if (state_->has_stuck_replica)
        throw;
      if (!gathered->is_complete) {
        restore_state(*state_);
        throw;
      }
      texts_ = std::move(gathered->texts);
      throw;
    }
    texts_ = std::move(gathered->texts);
  }

  /// Reads the results of the step from another process.
  void read(const std::string& text) {
    result_texts texts;
    if (!decode_text(text, texts) || texts.size() != state_->replicas)
      throw_mismatch();
    texts_ = std::move(texts);
  }

  const std::shared_ptr<strategy_state> state_;
  const std::function<void(replica_context&)> fn_;
  const std::shared_ptr<step_results> results_;
  /// Results of the step. None: this process has not made it.
  std::optional<result_texts> texts_;
};

/// Makes a step in a job of one process. If the replicas have copies of the
/// parameters, a step that fails changes none of them.
void make_local_step(const std::shared_ptr<strategy_state>& state,
                     const std::function<void(replica_context&)>& step) {
  const auto number = step_of_run(*state);
  if (!state->has_copies())
    return run_one_step(state, step, {}, number);
  keep_state(*state);
  try {
    run_one_step(state, step, {}, number);
  } catch (...) {
    restore_state(*state);
    throw;
  }
}

/// A process that joins the job cannot begin between two such calls.
void reject_candidates(const strategy_state& state) {
  state.group->reject_candidates(
    "its program has called run, reduce or gather outside of strategy.loop, "
    "which a process that joins cannot repeat");
}

/// True if this process joins the job, and has not come to its call yet.
bool is_candidate(const strategy_state& state) {
  return state.lacks_state && state.group->is_joining();
}

} // namespace

void make_step(const std::shared_ptr<strategy_state>& state,
               const std::function<void(replica_context&)>& fn,
               const std::shared_ptr<step_results>& results) {
  const auto step = [fn, number = state->runs](replica_context& self) {
    current_context().random.step = number;
    fn(self);
  };
  check_idle(*state, "run");
  if (!state->spans_processes()) {
    make_local_step(state, step);
  } else if (is_candidate(*state)) {
    run_one_step(state, step, {}, step_of_run(*state));
  } else {
    if (!state->are_calls_copied())
      reject_candidates(*state);
    loop_step{state, step, results}.make();
  }
  ++state->runs;
  audit_copies(*state);
}

tensor make_collective(const std::shared_ptr<strategy_state>& state,
                       const std::string& name,
                       const std::function<tensor(replica_context&)>& fn) {
  const auto call_once = [&] {
    const auto out = std::make_shared<tensor>();
    run_one_step(
      state,
      [fn, out, placed = state->placement](replica_context& self) {
        auto own = fn(self);
        gather_at_end(self, {});
        if (self.replica_id() == placed.replicas().front())
          *out = std::move(own);
      },
      {}, state->iteration.value_or(requesting_call::no_step));
    return *out;
  };
  if (!state->spans_processes() || is_candidate(*state))
    return call_once();
  if (!state->are_calls_copied())
    reject_candidates(*state);
  tensor out;
  job_call call;
  call.name = name;
  call.run = [&] {
    out = call_once();
    detail::result_writer text{~std::size_t{0}};
    text.put(out);
    return std::move(text).text();
  };
  call.complete = [&](const std::string& result) {
    detail::result_reader in{result};
    if (!in.get(out) || !in.is_at_end())
      throw_mismatch();
  };
  make_call(state, call);
  return out;
}

} // namespace troupe
