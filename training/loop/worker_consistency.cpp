#include "troupe/training/loop/worker_consistency.hpp"

#include "troupe/net/base/text.hpp"
#include "troupe/training/loop/equal_copies.hpp"
#include "troupe/training/support/sha256.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace troupe {

namespace {

/// Collects the values that must be equal on all workers, one "name: value" per
/// line.
class account {
public:
  template <class T>
  void add(const char* name, const T& value) {
    text_ << name << ": " << value << '\n';
  }
  void add(const char* name, const named_numbers& all) {
    text_ << name << ':';
    for (const auto& one : all)
      text_ << ' ' << one.name << '=' << one.value;
    text_ << '\n';
  }
  std::string text() const { return text_.str(); }

private:
  std::ostringstream text_;
};

std::span<const std::byte> bytes_of(const tensor& x) {
  return {x.raw(), x.bytes()};
}

std::string hash_of_slots(const model_state& it) {
  sha256 hash;
  for (const auto& slot : it.slots[0])
    hash.add(bytes_of(slot));
  return to_hex(hash.finish());
}

std::string hash_of_batch(const data::dataset& batches,
                          const data::position& at) {
  const auto first = batches.prefetch(0).iterate(at).next();
  if (!first)
    return "none";
  sha256 hash;
  hash.add(bytes_of(first->inputs)).add(bytes_of(first->labels));
  return to_hex(hash.finish());
}

std::string account_of(const model_state& it, const data::dataset& batches,
                       const fit_options& options, const fit_position& at) {
  account x;
  x.add("model", it.net.name());
  x.add("loss", it.loss->name);
  x.add("optimizer", it.rule.name());
  x.add("settings of the optimizer", it.rule.numbers());
  x.add("seed", it.seed);
  x.add("steps done", it.steps);
  x.add("hash of the optimizer's state", hash_of_slots(it));
  x.add("batches per epoch", at.batches);
  x.add("epoch of the data", at.at.pass);
  x.add("first epoch of the data", at.first_pass);
  x.add("batches of the epoch done", at.at.index);
  x.add("hash of the next batch", hash_of_batch(batches, at.at));
  x.add("epochs", options.epochs);
  x.add("max_steps", options.max_steps);
  x.add("on_nan", options.on_nan == on_nan::stop ? "stop" : "skip");
  x.add("validation batches",
        options.validation ? options.validation->size().value_or(0) : 0);
  if (const auto& s = options.schedule) {
    x.add("schedule", s->name());
    x.add("settings of the schedule", s->numbers());
  }
  if (const auto& e = options.early_stopping) {
    x.add("early stopping's measure", static_cast<int>(e->monitor));
    x.add("early stopping's patience", e->patience);
    x.add("early stopping's min_delta", e->min_delta);
    x.add("early stopping's restore_best", e->restore_best);
  }
  return x.text();
}

/// Describes the first line in which two texts differ.
std::string difference(const std::string& a, const std::string& b) {
  std::istringstream in_a{a}, in_b{b};
  for (std::string x, y;;) {
    const bool more_a = bool(std::getline(in_a, x));
    const bool more_b = bool(std::getline(in_b, y));
    if (!more_a && !more_b)
      return "";
    if (x != y || more_a != more_b)
      return (more_b ? "\"" + net::printable(y) + "\"" : "nothing")
             + ", but worker 0 has "
             + (more_a ? "\"" + net::printable(x) + "\"" : "nothing");
  }
}

} // namespace

void check_equal_workers(const model_state& it, const data::dataset& batches,
                         const fit_options& options, const fit_position& at) {
  if (it.strategy->here.processes == 1)
    return check_equal_copies(it);
  constexpr char end_of_account = '\f';
  auto all = tell_all(it.strategy,
                      account_of(it, batches, options, at) + end_of_account
                        + copies_here(it),
                      it.strategy->callback_timeout);
  std::vector<std::string> copies;
  for (auto& one : all) {
    const auto end = std::min(one.find(end_of_account), one.size());
    copies.push_back(one.substr(std::min(end + 1, one.size())));
    one.resize(end);
  }
  for (std::size_t w = 1; w < all.size(); ++w)
    if (all[w] != all[0])
      throw std::invalid_argument(
        "worker " + std::to_string(w) + " has " + difference(all[0], all[w])
        + "; all workers must train the same model on the same data with the "
          "same options");
  compare_copies(copies);
}

} // namespace troupe
