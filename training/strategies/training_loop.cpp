#include "troupe/training/strategies/training_loop.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"
#include "troupe/training/strategies/calls/job_call.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"
#include "troupe/training/strategies/replica/worker_difference.hpp"

#include <chrono>
#include <exception>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace troupe {

namespace {

using namespace std::chrono_literals;

/// Interval in which workers gather their positions again while a process
/// joins.
constexpr auto admission_interval = 100ms;

[[noreturn]] void throw_malformed() {
  throw job_error(ec::protocol, "a worker sent a malformed text of a loop");
}

/// What a worker does between two iterations.
enum class loop_phase : std::uint8_t {
  next,     ///< It begins another iteration.
  complete, ///< It has made all iterations.
  left,     ///< It has left the loop by a `break`.
};

/// Where a worker is between two iterations.
struct loop_position {
  loop_phase phase = loop_phase::next;
  /// Epochs of the loop that were begun.
  std::uint64_t epochs = 0;
  data::position batch{};   ///< The next batch. Unused after the end.
  std::uint64_t number = 0; ///< Iterations of the loop that were made.
  /// `distributed_dataset::epochs_begun`.
  std::uint64_t data_epochs = 0;

  std::string text() const {
    return encode_text(std::uint8_t(phase), epochs, batch.epoch, batch.index,
                       number, data_epochs);
  }
  static loop_position of(const std::string& text) {
    loop_position out;
    std::uint8_t phase = 0;
    if (!decode_text(text, phase, out.epochs, out.batch.epoch, out.batch.index,
                     out.number, out.data_epochs)
        || phase > std::uint8_t(loop_phase::left))
      throw_malformed();
    out.phase = loop_phase{phase};
    return out;
  }
};

std::string describe(const loop_position& x) {
  const auto after = " after " + std::to_string(x.number)
                     + (x.number == 1 ? " iteration" : " iterations");
  switch (x.phase) {
    case loop_phase::next:
      return "goes on" + after;
    case loop_phase::complete:
      return "has come to the end of the data" + after;
    case loop_phase::left:
      break;
  }
  return "has left it by break or return" + after;
}

} // namespace

class training_loop::impl {
public:
  impl(const strategy& over, std::string name,
       const distributed_dataset& batches, const loop_options& options)
    : state_{over.state()},
      name_{std::move(name)},
      batches_{batches},
      options_{options} {
    if (options.epochs == 0)
      throw std::invalid_argument("the loop \"" + name_
                                  + "\": 0 is not a valid number of epochs; "
                                    "give 1 or more");
    check_first();
    if (batches.run_strategy() != over)
      throw std::logic_error("the loop \"" + name_
                             + "\" got a dataset that another strategy "
                               "distributes; call distribute of its own");
  }

  ~impl() {
    if (!is_active_) // all workers are told, or the loop has not begun
      return;
    end_loop();
    if (!state_->spans_processes() || state_->has_client)
      return;
    state_->group->defer_candidates(false);
    state_->group->reject_candidates("an exception has ended the loop \""
                                     + name_ + "\" of its program");
  }

  void begin() {
    if (has_begun_)
      throw std::logic_error("the loop \"" + name_
                             + "\" was begun before; call loop again");
    if (state_->in_loop)
      throw std::logic_error("the loop \"" + name_
                             + "\" was begun in an iteration of another loop; "
                               "use a range-for over the dataset there");
    has_begun_ = true;
    if (state_->spans_processes()) {
      verify_equal();
      state_->group->defer_candidates(true);
    }
    state_->in_loop = is_active_ = true;
    go_to_first();
    exceptions_ = std::uncaught_exceptions();
    current_.is_first_here = true;
    advance();
  }

  void next() {
    ++position_.number;
    current_.is_first_here = false;
    advance();
  }

  /// Ends the loop if its last iteration was left. @errors throws as `advance`.
  void leave() {
    if (!is_active_ || std::uncaught_exceptions() > exceptions_)
      return;
    position_.phase = loop_phase::left;
    synchronize();
  }

  bool is_active() const { return is_active_; }
  loop_iteration& current() { return current_; }

private:
  /// @errors throws std::invalid_argument if the first position is behind the
  ///         end.
  void check_first() const {
    const auto epoch = options_.first.epoch, index = options_.first.index;
    const auto reject = [&](const std::string& why) {
      throw std::invalid_argument("the loop \"" + name_ + "\": first is {"
                                  + std::to_string(epoch) + ", "
                                  + std::to_string(index) + "}, but " + why);
    };
    const auto size = batches_.batches().size();
    if (epoch > options_.epochs || (epoch == options_.epochs && index > 0))
      reject("the loop has " + std::to_string(options_.epochs)
             + (options_.epochs == 1 ? " epoch" : " epochs")
             + "; give an epoch before its end");
    if (size && index > *size)
      reject("an epoch has " + std::to_string(*size)
             + (*size == 1 ? " batch" : " batches")
             + "; give an index before its end");
    if (!size && epoch > 0 && epoch < options_.epochs)
      reject("the epochs of the dataset have no known number of batches; give "
             "epoch 0");
  }

  /// Begins with the first position, as if the iterations before it were made.
  void go_to_first() {
    const auto& [epoch, index] = options_.first;
    for (; position_.epochs < epoch; ++position_.epochs)
      batches_.begin_epoch();
    position_.number = epoch * batches_.batches().size().value_or(0) + index;
  }

  /// The program is in no iteration any more.
  void end_loop() {
    is_active_ = state_->in_loop = false;
    state_->iteration.reset();
  }

  std::string description() const {
    std::string out =
      "loop: " + name_ + "\nepochs: " + std::to_string(options_.epochs)
      + "\nfirst epoch of the data: " + std::to_string(batches_.epochs_begun());
    out += "\nfirst iteration: epoch " + std::to_string(options_.first.epoch)
           + ", batch " + std::to_string(options_.first.index);
    out += '\n' + batches_.description();
    for (const auto& one : state_->observers)
      if (const auto owner = one.lock())
        out += owner->description();
    out += "variables:";
    for (const auto& x : state_->variables)
      out += ' ' + to_string(x.dims);
    return out + '\n';
  }

  /// Checks that all workers begin the same loop.
  void verify_equal() {
    const bool lacks_state = state_->lacks_state;
    const auto own = description();
    const auto texts = all_gather_text(
      state_, encode_text(state_->own_name(), own),
      {.join_timeout = state_->callback_timeout, .call = "loop"});
    std::vector<std::pair<std::string, std::string>> all(texts.size());
    for (std::size_t w = 0; w < all.size(); ++w)
      if (!decode_text(texts[w], all[w].first, all[w].second))
        throw_malformed();
    const auto check = [&](const std::string& worker, const std::string& x) {
      const auto& [first_worker, first] = all[0];
      if (x != first)
        throw std::invalid_argument(
          net::printable(worker) + " has "
          + difference(net::printable(first_worker), first, x)
          + "; all workers must begin the same loop over the same data");
    };
    for (const auto& [worker, x] : all)
      check(worker, x);
    if (lacks_state && state_->lacks_state) // the texts are those of others
      check("this worker, which joins the running job,", own);
  }

  /// Goes to the next iteration, or to the end.
  void advance() {
    std::optional<per_replica<batch>> values;
    const auto views = state_->views;
    if (!state_->lacks_state) {
      values = read();
      position_.phase = values ? loop_phase::next : loop_phase::complete;
    }
    position_.data_epochs = batches_.epochs_begun();
    if (!state_->spans_processes()) {
      if (!values)
        end_loop();
    } else {
      synchronize();
      // The replicas of this process, or where it is, may be others now.
      if (is_active_ && (!values || views != state_->views)) {
        reader_.emplace(batches_.iterate(position_.batch));
        values = reader_->next();
        if (!values)
          throw std::runtime_error("the loop \"" + name_
                                   + "\": the dataset gives fewer batches than "
                                     "before");
      }
    }
    if (!is_active_)
      return;
    current_.values = std::move(*values);
    current_.epoch = position_.epochs - 1;
    current_.index = position_.batch.index;
    current_.number = position_.number;
    state_->iteration = position_.number;
  }

  /// Reads the next batch. None: all epochs have ended.
  std::optional<per_replica<batch>> read() {
    for (;;) {
      if (!reader_) {
        if (position_.epochs == options_.epochs)
          return std::nullopt;
        const bool is_first = position_.epochs++ == options_.first.epoch;
        reader_.emplace(batches_.iterate(
          {batches_.begin_epoch(), is_first ? options_.first.index : 0}));
      }
      position_.batch = reader_->save();
      if (auto values = reader_->next())
        return values;
      reader_.reset();
    }
  }

  /// Compares the positions of all workers, and admits processes that join.
  void synchronize() {
    job_call call;
    call.name = "loop (its next iteration, or its end)";
    call.run = [this] {
      const auto out = compare_positions();
      end_position();
      return out;
    };
    call.complete = [this](const std::string& result) {
      adopt(result);
      end_position();
    };
    call.report = [this] {
      return state_->lacks_state ? std::string{} : position_.text();
    };
    call.resume = [this](const call_report& latest) {
      if (state_->lacks_state)
        adopt(latest.text);
    };
    make_call(state_, call);
  }

  /// @returns the position, which is equal on all workers.
  std::string compare_positions() {
    const auto own = position_.text();
    for (;;) {
      // A process joins between two requests of a client, not inside of one.
      const bool is_asked = position_.phase == loop_phase::next
                            && !state_->has_client
                            && state_->group->has_deferred_candidate();
      const auto texts = gather_text_once(state_, encode_text(own, is_asked),
                                          state_->callback_timeout);
      bool is_any_asked = false;
      std::vector<std::string> positions(texts.size());
      for (std::size_t w = 0; w < texts.size(); ++w) {
        bool asked = false;
        if (!decode_text(texts[w], positions[w], asked))
          positions[w].clear();
        is_any_asked |= asked;
      }
      check_positions(positions);
      if (!is_any_asked)
        return own;
      // A process joins between two iterations only.
      state_->group->admit_candidates(admission_interval);
      if (state_->placement.job.processes() == 1) // fails if the view changes
        run_one_step(state_, [](replica_context&) {});
    }
  }

  void check_positions(const std::vector<std::string>& all) const {
    const auto first = loop_position::of(all.front());
    for (std::size_t w = 1; w < all.size(); ++w)
      check_equal(state_->group->process_name(0), first,
                  state_->group->process_name(std::uint32_t(w)),
                  loop_position::of(all[w]));
  }

  void check_equal(const std::string& first_worker, const loop_position& first,
                   const std::string& worker,
                   const loop_position& other) const {
    if (other.text() != first.text())
      throw std::invalid_argument(
        "the loop \"" + name_ + "\": " + worker + ' ' + describe(other)
        + ", but " + first_worker + ' ' + describe(first)
        + "; all workers must leave a loop in the same iteration");
  }

  /// Goes to the position of another worker.
  void adopt(const std::string& text) {
    const auto other = loop_position::of(text);
    if (!state_->lacks_state) {
      check_equal("another worker", other, "this worker", position_);
      return;
    }
    position_ = other;
    batches_.set_epochs_begun(other.data_epochs);
  }

  /// The call at this position is complete: an iteration follows, or none.
  void end_position() {
    if (position_.phase != loop_phase::next)
      end_loop();
    if (!state_->has_client)
      state_->group->defer_candidates(is_active_);
  }

  const std::shared_ptr<strategy_state> state_;
  const std::string name_;
  const distributed_dataset batches_;
  const loop_options options_;
  bool has_begun_ = false;
  bool is_active_ = false; ///< It has begun, and has not ended.
  int exceptions_ = 0;     ///< Active exceptions at the begin.
  loop_position position_;
  /// Reads the current epoch. None: the next one has not begun.
  std::optional<distributed_dataset::steps> reader_;
  loop_iteration current_;
};

training_loop::training_loop(const strategy& over, std::string name,
                             const distributed_dataset& batches,
                             const loop_options& options)
  : impl_{std::make_unique<impl>(over, std::move(name), batches, options)} {}

training_loop::~training_loop() noexcept(false) {
  impl_->leave();
}

training_loop::iterator training_loop::begin() {
  impl_->begin();
  return iterator{*this};
}

loop_iteration& training_loop::iterator::operator*() const {
  return loop_->impl_->current();
}

training_loop::iterator& training_loop::iterator::operator++() {
  loop_->impl_->next();
  return *this;
}

bool training_loop::iterator::operator==(std::default_sentinel_t) const {
  return !loop_->impl_->is_active();
}

} // namespace troupe
