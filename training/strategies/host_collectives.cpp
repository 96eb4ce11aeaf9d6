#include "troupe/actors/core/error_code.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/training/strategies/replica_context.hpp"
#include "troupe/training/strategies/strategy_state.hpp"

#include <cstring>
#include <exception>
#include <stdexcept>

// Collectives between the processes of a job that are not part of training.

namespace troupe {

namespace {

[[noreturn]] void refuse_what_others_do() {
  throw failure(ec::protocol,
                "the other workers called another collective: all workers must "
                "make the same calls in the same order");
}

} // namespace

void run_once(const std::shared_ptr<strategy_state>& on,
              const std::function<void(replica_context&)>& fn,
              std::chrono::milliseconds join_timeout) {
  work one;
  one.join_timeout = join_timeout;
  one.first_step = on->next_step;
  one.step = [fn](step_context&) { fn(*current_place()->replica); };
  if (run_work(on, one) == one.first_step)
    throw failure(ec::cancelled, "the step was stopped before it began");
  ++on->next_step;
}

std::vector<std::string> tell_all(const std::shared_ptr<strategy_state>& on,
                                  const std::string& mine,
                                  std::chrono::milliseconds join_timeout) {
  if (on->here.processes == 1)
    return {mine};
  // The first replica of each process contributes a one, then the text.
  const auto heard = std::make_shared<std::vector<std::string>>();
  run_once(
    on,
    [heard, mine, first = on->here.first](replica_context& self) {
      const bool speaks = self.replica_id() == first;
      const auto size = speaks ? mine.size() + 1 : 1;
      auto said =
        tensor::zeros({static_cast<std::int64_t>(size)}, dtype::uint8);
      if (speaks) {
        said.mutable_data<std::uint8_t>()[0] = 1;
        std::memcpy(said.raw() + 1, mine.data(), mine.size());
      }
      const auto all = self.all_parts(said);
      if (speaks)
        heard->clear(); // A step may be run again.
      for (std::size_t i = 0; speaks && i < all.size(); ++i) {
        if (all[i].type() != dtype::uint8 || all[i].bytes() == 0)
          refuse_what_others_do();
        if (const auto text = all[i].data<std::uint8_t>(); text[0] == 1)
          heard->emplace_back(text.begin() + 1, text.end());
      }
    },
    join_timeout);
  if (heard->size() != on->here.processes)
    refuse_what_others_do();
  return *heard;
}

void on_leader(const std::shared_ptr<strategy_state>& on,
               const std::function<void()>& fn) {
  if (on->here.processes == 1)
    return fn();
  std::exception_ptr thrown;
  std::string why;
  if (on->here.process == 0) {
    try {
      fn();
    } catch (const std::exception& e) {
      thrown = std::current_exception();
      why = e.what();
    } catch (...) {
      thrown = std::current_exception();
      why = "an exception that is no std::exception";
    }
  }
  const auto said =
    tell_all(on, thrown ? "-" + why : "+", on->callback_timeout).front();
  if (thrown)
    std::rethrow_exception(thrown);
  if (said.starts_with('-'))
    throw std::runtime_error(net::printable_lines(said.substr(1))
                             + " (reported by worker 0)");
}

} // namespace troupe
