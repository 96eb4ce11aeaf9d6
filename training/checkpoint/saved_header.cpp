#include "troupe/training/checkpoint/saved_header.hpp"

#include "troupe/actors/core/version.hpp"
#include "troupe/models/detail/json.hpp"
#include "troupe/net/base/log_rate_limiter.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

using json = nlohmann::json;
using ordered = nlohmann::ordered_json;

/// A model's description is nested one level deep in the header.
constexpr int deepest_brackets = models::detail::deepest_brackets + 1;

// -- writing ------------------------------------------------------------------

/// JSON has no NaN: null stands for "none".
ordered number(double x) {
  return std::isfinite(x) ? ordered(x) : ordered();
}

ordered to_json(const epoch_record& x) {
  return {{"epoch", x.epoch},
          {"steps", x.steps},
          {"examples", x.examples},
          {"loss", number(x.loss)},
          {"accuracy", number(x.accuracy)},
          {"validation_loss", number(x.validation_loss)},
          {"validation_accuracy", number(x.validation_accuracy)},
          {"learning_rate", number(x.learning_rate)},
          {"seconds", number(x.seconds)}};
}

ordered to_json(const fit_position& x) {
  auto epochs = ordered::array();
  for (const auto& one : x.epochs)
    epochs.push_back(to_json(one));
  return {{"pass", x.at.pass},
          {"batch", x.at.index},
          {"first_pass", x.first_pass},
          {"batches", x.batches},
          {"replicas", x.replicas},
          {"totals",
           {{"examples", x.totals.examples},
            {"loss_sum", number(x.totals.loss_sum)},
            {"correct", number(x.totals.correct)},
            {"seconds", number(x.totals.seconds)}}},
          {"epochs", std::move(epochs)},
          {"early_stopping",
           {{"best", number(x.best)},
            {"best_epoch", x.best_epoch},
            {"waited", x.waited}}}};
}

// -- reading ------------------------------------------------------------------

/// A value in the header and its path, for errors.
class field {
public:
  field(const json& value, std::string path, const std::string& where)
    : value_{value}, path_{std::move(path)}, where_{where} {}

  field operator[](const char* key) const {
    if (!has(key))
      refuse(std::string{"has no \""} + key + "\"");
    return {value_[key], path_.empty() ? key : path_ + "." + key, where_};
  }

  bool has(const char* key) const {
    return value_.is_object() && value_.contains(key);
  }

  template <class T = std::uint64_t>
  T count() const {
    need(value_.is_number_unsigned(), "is not a non-negative integer");
    const auto x = value_.get<std::uint64_t>();
    need(std::in_range<T>(x), "is too large");
    return static_cast<T>(x);
  }

  double real() const {
    if (value_.is_null())
      return epoch_record::none;
    need(value_.is_number(), "is not a number");
    return value_.get<double>();
  }

  bool flag() const {
    need(value_.is_boolean(), "is not true or false");
    return value_.get<bool>();
  }

  std::string text() const {
    need(value_.is_string(), "is not a string");
    return value_.get<std::string>();
  }

  template <class F>
  void each(F fn) const {
    need(value_.is_array(), "is not a list");
    for (std::size_t i = 0; i < value_.size(); ++i)
      fn(field{value_[i], path_ + "[" + std::to_string(i) + "]", where_});
  }

  /// Calls `fn(key, value)` for each member of an object.
  template <class F>
  void entries(F fn) const {
    need(value_.is_object(), "is not an object");
    for (const auto& [key, value] : value_.items())
      fn(key, field{value, path_ + "." + key, where_});
  }

  const json& raw() const { return value_; }

  [[noreturn]] void refuse(const std::string& what) const {
    throw std::runtime_error(
      where_ + " is damaged: its header"
      + (path_.empty() ? "" : " at \"" + net::printable(path_) + "\"") + " "
      + what);
  }

private:
  void need(bool holds, const char* what) const {
    if (!holds)
      refuse(what);
  }

  const json& value_;
  std::string path_;
  const std::string& where_;
};

shape shape_of(const field& x) {
  std::vector<std::int64_t> extents;
  x.each(
    [&](const field& one) { extents.push_back(one.count<std::int64_t>()); });
  try {
    return shape{extents};
  } catch (const std::logic_error&) {
    x.refuse("is not a shape");
  }
}

epoch_record epoch_of(const field& x) {
  epoch_record one;
  one.epoch = x["epoch"].count();
  one.steps = x["steps"].count();
  one.examples = x["examples"].count();
  one.loss = x["loss"].real();
  one.accuracy = x["accuracy"].real();
  one.validation_loss = x["validation_loss"].real();
  one.validation_accuracy = x["validation_accuracy"].real();
  one.learning_rate = x["learning_rate"].real();
  one.seconds = x["seconds"].real();
  return one;
}

fit_position position_of(const field& x, std::uint32_t version) {
  fit_position out;
  out.at = {x["pass"].count(), x["batch"].count()};
  if (version > 1)
    out.first_pass = x["first_pass"].count();
  if (out.first_pass > out.at.pass)
    x["first_pass"].refuse("is after the pass");
  out.batches = x["batches"].count();
  out.replicas = x["replicas"].count<std::uint32_t>();
  const auto totals = x["totals"];
  out.totals = {totals["examples"].count(), totals["loss_sum"].real(),
                totals["correct"].real(), totals["seconds"].real()};
  x["epochs"].each(
    [&](const field& one) { out.epochs.push_back(epoch_of(one)); });
  const auto early = x["early_stopping"];
  out.best = early["best"].real();
  out.best_epoch = early["best_epoch"].count();
  out.waited = early["waited"].count();
  return out;
}

json parsed(std::string_view text, const std::string& where) {
  // The parser recurses as deep as the brackets nest, so the depth is checked
  // while parsing.
  const auto check = [&](int depth, json::parse_event_t, json&) {
    if (depth > deepest_brackets)
      throw std::runtime_error(where
                               + " is damaged: its header has brackets "
                                 "nested more than "
                               + std::to_string(deepest_brackets) + " deep");
    return true;
  };
  auto x = json::parse(text, check, false);
  if (x.is_discarded())
    throw std::runtime_error(where
                             + " is damaged: its header is not valid JSON");
  return x;
}

} // namespace

std::string write_header(const saved_header& x) {
  auto list = ordered::array();
  for (const auto& one : x.parameters)
    list.push_back(
      {{"name", one.name},
       {"shape", std::vector<std::int64_t>(one.dims.begin(), one.dims.end())}});
  auto numbers = ordered::object();
  for (const auto& [name, value] : x.optimizer_numbers)
    numbers[name] = value;
  ordered all{{"troupe", version},
              {"model", ordered::parse(models::to_json_text(x.model))},
              {"loss", x.loss},
              {"optimizer", {{"name", x.optimizer}, {"numbers", numbers}}},
              {"seed", x.seed},
              {"steps", x.steps},
              {"passes", x.passes},
              {"parameters", std::move(list)},
              {"best_weights", x.best_weights},
              {"note", x.note}};
  if (x.fit)
    all["fit"] = to_json(*x.fit);
  return all.dump(-1, ' ', false, ordered::error_handler_t::replace);
}

saved_header read_header(std::string_view text, std::uint32_t version,
                         const std::string& where) {
  const auto whole = parsed(text, where);
  const field top{whole, {}, where};
  saved_header x;
  x.model = models::parse(top["model"].raw().dump(), "the model in " + where);
  x.loss = top["loss"].text();
  x.optimizer = top["optimizer"]["name"].text();
  top["optimizer"]["numbers"].entries(
    [&](const std::string& name, const field& value) {
      x.optimizer_numbers.push_back({name, value.real()});
    });
  x.seed = top["seed"].count();
  x.steps = top["steps"].count();
  top["parameters"].each([&](const field& one) {
    x.parameters.push_back({one["name"].text(), shape_of(one["shape"])});
  });
  x.best_weights = top["best_weights"].flag();
  x.note = top["note"].text();
  if (top.has("fit"))
    x.fit = position_of(top["fit"], version);
  if (version > 1)
    x.passes = top["passes"].count();
  else if (x.fit)
    x.passes = x.fit->at.pass + (x.fit->at.index > 0 ? 1 : 0);
  return x;
}

} // namespace troupe
