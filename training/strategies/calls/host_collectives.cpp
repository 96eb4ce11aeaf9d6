#include "troupe/training/strategies/calls/host_collectives.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/tensors/base/device_error.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/training/strategies/calls/job_call.hpp"
#include "troupe/training/strategies/calls/run_steps.hpp"
#include "troupe/training/strategies/replica/replica_context.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"

#include <cstring>
#include <exception>
#include <stdexcept>

namespace troupe {

namespace {

[[noreturn]] void throw_call_mismatch() {
  throw job_error(
    ec::protocol,
    "the other workers called another collective: all workers must "
    "make the same calls in the same order");
}

} // namespace

void run_one_step(const std::shared_ptr<strategy_state>& state,
                  const std::function<void(replica_context&)>& fn,
                  std::chrono::milliseconds join_timeout,
                  std::uint64_t user_step) {
  run_request request;
  request.join_timeout = join_timeout;
  request.call.user_step = user_step;
  request.first_step = state->next_step;
  request.step = [fn](step_context&) {
    fn(*current_execution_scope()->replica);
  };
  if (run_steps(state, request) == request.first_step)
    throw job_error(ec::cancelled, "the step was stopped before it began");
  ++state->next_step;
}

std::vector<std::string>
gather_text_once(const std::shared_ptr<strategy_state>& state,
                 const std::string& own_text,
                 std::chrono::milliseconds join_timeout) {
  if (state->placement.job.processes() == 1)
    return {own_text};
  // The first replica of each process contributes the byte 1 and the text. All
  // other replicas contribute the byte 0.
  const auto texts = std::make_shared<std::vector<std::string>>(
    state->placement.job.processes());
  run_one_step(
    state,
    [texts, own_text, placed = state->placement](replica_context& self) {
      const auto is_first = [&](std::uint32_t replica) {
        const auto process = placed.job.process_of(replica);
        return placed.job.replicas_of(process).front() == replica;
      };
      const bool is_sender = is_first(self.replica_id());
      const auto size = is_sender ? own_text.size() + 1 : 1;
      auto message =
        tensor::zeros({static_cast<std::int64_t>(size)}, dtype::uint8);
      if (is_sender) {
        message.mutable_data<std::uint8_t>()[0] = 1;
        std::memcpy(message.raw() + 1, own_text.data(), own_text.size());
      }
      const auto gathered = self.all_gather_list(message);
      if (!is_sender)
        return;
      for (std::uint32_t i = 0; i < gathered.size(); ++i) {
        if (gathered[i].type() != dtype::uint8 || gathered[i].bytes() == 0)
          throw_call_mismatch();
        const auto text = gathered[i].data<std::uint8_t>();
        if (text[0] != (is_first(i) ? 1 : 0))
          throw_call_mismatch();
        if (is_first(i))
          (*texts)[placed.job.process_of(i)].assign(text.begin() + 1,
                                                    text.end());
      }
    },
    join_timeout);
  return *texts;
}

tensor gather_from(const std::shared_ptr<strategy_state>& state,
                   std::uint32_t sender, const tensor& own) {
  const auto received = std::make_shared<tensor>();
  run_one_step(
    state, [received, sender, own, first = state->placement.replicas().front()](
             replica_context& self) {
      const auto all = self.all_gather_list(self.replica_id() == sender
                                              ? own.to({})
                                              : tensor::zeros({1}, own.type()));
      if (self.replica_id() == first)
        *received = all[sender];
    });
  if (received->spec() != own.spec())
    throw_call_mismatch();
  return *received;
}

std::vector<std::string>
all_gather_text(const std::shared_ptr<strategy_state>& state,
                const std::string& own_text, const text_gather& options) {
  return all_gather_text(
    state, [&] { return own_text; }, options);
}

std::vector<std::string>
all_gather_text(const std::shared_ptr<strategy_state>& state,
                const std::function<std::string()>& own_text,
                const text_gather& options) {
  std::vector<std::string> texts;
  job_call call;
  call.name = options.call;
  call.run = [&] {
    texts = gather_text_once(state, own_text(), options.join_timeout);
    return encode_text(texts);
  };
  call.complete = [&](const std::string& result) {
    if (!decode_text(result, texts))
      throw_call_mismatch();
  };
  make_call(state, call);
  return texts;
}

void run_on_chief(const std::shared_ptr<strategy_state>& state,
                  const std::function<void()>& fn, const std::string& name) {
  std::exception_ptr thrown;
  // Of this process: empty, "+", or "-", the error and who reports it.
  std::string outcome;
  const auto call_function = [&] {
    outcome = "+";
    try {
      fn();
    } catch (const device_lost&) { // another process becomes the chief
      outcome.clear();
      throw;
    } catch (const std::exception& e) {
      thrown = std::current_exception();
      outcome = std::string{"-"} + e.what();
    } catch (...) {
      thrown = std::current_exception();
      outcome = "-an exception that is no std::exception";
    }
    if (thrown)
      outcome += " (reported by " + state->own_name() + ")";
  };
  std::string result;
  job_call call;
  call.name = name;
  call.run = [&] {
    if (state->placement.process == 0 && outcome.empty())
      call_function();
    return result =
             gather_text_once(state, outcome, state->callback_timeout).front();
  };
  call.complete = [&](const std::string& x) { result = x; };
  make_call(state, call);
  if (thrown)
    std::rethrow_exception(thrown);
  if (result.starts_with('-'))
    throw std::runtime_error(net::printable_lines(result.substr(1)));
}

} // namespace troupe
