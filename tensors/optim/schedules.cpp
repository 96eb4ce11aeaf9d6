#include "troupe/tensors/optim/schedules.hpp"

#include "troupe/tensors/detail/exact_math.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace troupe {

namespace {

template <class F>
void list(constant_schedule& x, F& visit) {
  visit("learning_rate", x.learning_rate);
}

template <class F>
void list(step_schedule& x, F& visit) {
  visit("learning_rate", x.learning_rate);
  visit("factor", x.factor);
  visit("every", x.every);
}

template <class F>
void list(cosine_schedule& x, F& visit) {
  visit("learning_rate", x.learning_rate);
  visit("final_rate", x.final_rate);
  visit("steps", x.steps);
  visit("warm_up", x.warm_up);
}

template <class F>
void list(function_schedule&, F&) {}

schedule::variant_type schedule_by_name(std::string_view name) {
  if (name == "constant")
    return constant_schedule{};
  if (name == "step")
    return step_schedule{};
  if (name == "cosine")
    return cosine_schedule{};
  throw std::invalid_argument("the schedule '" + std::string{name}
                              + "' is unknown; there are "
                              + detail::joined(schedule_names()));
}

double rate_at(const constant_schedule& x, std::uint64_t) {
  return x.learning_rate;
}

double rate_at(const step_schedule& x, std::uint64_t step) {
  return x.learning_rate * detail::power(x.factor, step / x.every);
}

double rate_at(const cosine_schedule& cosine, std::uint64_t step) {
  const double high = cosine.learning_rate, low = cosine.final_rate;
  if (step < cosine.warm_up)
    return high * static_cast<double>(step + 1)
           / static_cast<double>(cosine.warm_up);
  if (step >= cosine.steps)
    return low;
  const auto fraction = static_cast<double>(step - cosine.warm_up)
                        / static_cast<double>(cosine.steps - cosine.warm_up);
  return low + (high - low) * (1 + detail::cos_pi(fraction)) / 2;
}

double rate_at(const function_schedule& x, std::uint64_t step) {
  const auto rate = x.rate(step);
  if (!(std::isfinite(rate) && rate >= 0))
    throw std::invalid_argument(
      "the schedule's function gave the learning rate " + std::to_string(rate)
      + " for step " + std::to_string(step) + "; it must be at least 0");
  return rate;
}

struct schedule_checker {
  std::string_view owner;

  void at_least_0(const char* name, float x) const {
    detail::require(std::isfinite(x) && x >= 0, owner, name,
                    detail::as_written(x), "it must be at least 0");
  }
  void operator()(const constant_schedule& x) const {
    at_least_0("learning_rate", x.learning_rate);
  }
  void operator()(const step_schedule& x) const {
    at_least_0("learning_rate", x.learning_rate);
    at_least_0("factor", x.factor);
    detail::require(x.every > 0, owner, "every", 0, "it must be at least 1");
  }
  void operator()(const cosine_schedule& x) const {
    at_least_0("learning_rate", x.learning_rate);
    at_least_0("final_rate", x.final_rate);
    detail::require(x.warm_up < x.steps, owner, "warm_up",
                    static_cast<double>(x.warm_up), "it must be below steps");
  }
  void operator()(const function_schedule& x) const {
    if (!x.rate)
      throw std::invalid_argument("a schedule that is a function has none");
  }
};

} // namespace

schedule::schedule(std::string_view name,
                   std::span<const hyperparameter> numbers)
  : form_{schedule_by_name(name)} {
  detail::hyperparameter_reader read{name, numbers};
  std::visit([&](auto& form) { list(form, read); }, form_);
  read.finish();
  check();
}

std::string_view schedule::name() const {
  if (std::holds_alternative<function_schedule>(form_))
    return "function";
  return schedule_names()[form_.index()];
}

hyperparameters schedule::numbers() const {
  hyperparameters out;
  detail::hyperparameter_writer write{&out};
  std::visit([&](auto form) { list(form, write); }, form_);
  return out;
}

float schedule::at(std::uint64_t step) const {
  const auto rate =
    std::visit([&](const auto& form) { return rate_at(form, step); }, form_);
  if (!(rate <= std::numeric_limits<float>::max()))
    throw std::invalid_argument(
      "the schedule '" + std::string{name()}
      + "' has no finite learning rate "
        "at step "
      + std::to_string(step)
      + "; give it values with which the rate stays a float");
  return static_cast<float>(rate);
}

void schedule::check() const {
  std::visit(schedule_checker{name()}, form_);
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names{"constant", "step", "cosine"};
  return names;
}

} // namespace troupe
