#include "troupe/training/checkpoint/saved_header.hpp"

#include "troupe/actors/core/version.hpp"
#include "troupe/models/detail/json.hpp"
#include "troupe/net/base/log_rate_limiter.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace troupe {

namespace {

using json = nlohmann::json;
using ordered = nlohmann::ordered_json;

/// Maximum depth of nested brackets in a header. The header contains the
/// model's description one level below its own outermost bracket.
constexpr int max_brackets = models::detail::max_bracket_depth + 1;

// -- writing ------------------------------------------------------------------

/// Converts a number to JSON. Null replaces NaN and infinity, which JSON
/// does not have.
ordered number(double x) {
  return std::isfinite(x) ? ordered(x) : ordered();
}

ordered to_json(const std::vector<metric_value>& metrics) {
  auto list = ordered::array();
  for (const auto& one : metrics)
    list.push_back({{"name", one.name}, {"value", number(one.value)}});
  return list;
}

ordered to_json(const epoch_record& record) {
  return {{"epoch", record.epoch},
          {"steps", record.steps},
          {"examples", record.examples},
          {"loss", number(record.loss)},
          {"metrics", to_json(record.metrics)},
          {"validation_loss", number(record.validation_loss)},
          {"validation_metrics", to_json(record.validation_metrics)},
          {"learning_rate", number(record.learning_rate)},
          {"seconds", number(record.seconds)}};
}

/// The number of batches is in the position.
ordered to_json(const data_identity& data) {
  ordered out{{"first_batch", data.first_batch}};
  if (!data.last_batch.empty())
    out["last_batch"] = data.last_batch;
  if (data.examples)
    out["examples"] = *data.examples;
  return out;
}

ordered to_json(const fit_position& position) {
  auto epochs = ordered::array();
  for (const auto& one : position.epochs)
    epochs.push_back(to_json(one));
  auto sums = ordered::array();
  for (const auto one : position.totals.sums)
    sums.push_back(number(one));
  ordered out{{"pass", position.next_batch.epoch},
              {"batch", position.next_batch.index},
              {"first_pass", position.first_epoch},
              {"batches", position.batches},
              {"replicas", position.replicas},
              {"metrics", position.metrics},
              {"totals",
               {{"examples", position.totals.examples},
                {"sums", std::move(sums)},
                {"seconds", number(position.totals.seconds)}}},
              {"epochs", std::move(epochs)},
              {"early_stopping",
               {{"best", number(position.best_metric)},
                {"best_epoch", position.best_epoch},
                {"waited", position.epochs_without_improvement}}}};
  if (!position.replica_shares.empty())
    out["replica_shares"] = position.replica_shares;
  if (position.data)
    out["data"] = to_json(*position.data);
  return out;
}

/// The id of a job as text: a JSON number need not be exact.
std::string to_hex(std::uint64_t id) {
  char text[17] = {};
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(id));
  return text;
}

ordered to_json(const saved_position& position) {
  return {{"id", to_hex(position.job)},
          {"view", position.view},
          {"call", position.call}};
}

// -- reading ------------------------------------------------------------------

/// A value in the header. Its path appears in error texts.
class field {
public:
  field(const json& value, std::string path, const std::string& file_name)
    : value_{value}, path_{std::move(path)}, file_name_{file_name} {}

  field operator[](const char* key) const {
    if (!has(key))
      throw_damaged(std::string{"has no \""} + key + "\"");
    return {value_[key], path_.empty() ? key : path_ + "." + key, file_name_};
  }

  bool has(const char* key) const {
    return value_.is_object() && value_.contains(key);
  }

  template <class T = std::uint64_t>
  T count() const {
    require(value_.is_number_unsigned(), "is not a non-negative integer");
    const auto x = value_.get<std::uint64_t>();
    require(std::in_range<T>(x), "is too large");
    return static_cast<T>(x);
  }

  double real() const {
    if (value_.is_null())
      return epoch_record::none;
    require(value_.is_number(), "is not a number");
    return value_.get<double>();
  }

  bool flag() const {
    require(value_.is_boolean(), "is not true or false");
    return value_.get<bool>();
  }

  std::string text() const {
    require(value_.is_string(), "is not a string");
    return value_.get<std::string>();
  }

  template <class F>
  void each(F fn) const {
    require(value_.is_array(), "is not a list");
    for (std::size_t i = 0; i < value_.size(); ++i)
      fn(field{value_[i], path_ + "[" + std::to_string(i) + "]", file_name_});
  }

  /// Calls `fn(key, value)` for each member of an object.
  template <class F>
  void entries(F fn) const {
    require(value_.is_object(), "is not an object");
    for (const auto& [key, value] : value_.items())
      fn(key, field{value, path_ + "." + key, file_name_});
  }

  const json& raw() const { return value_; }

  [[noreturn]] void throw_damaged(const std::string& problem) const {
    throw std::runtime_error(
      file_name_ + " is damaged: its header"
      + (path_.empty() ? "" : " at \"" + net::printable(path_) + "\"") + " "
      + problem);
  }

private:
  void require(bool holds, const char* problem) const {
    if (!holds)
      throw_damaged(problem);
  }

  const json& value_;
  std::string path_;
  const std::string& file_name_;
};

shape shape_of(const field& list) {
  std::vector<std::int64_t> extents;
  list.each(
    [&](const field& one) { extents.push_back(one.count<std::int64_t>()); });
  try {
    return shape{extents};
  } catch (const std::logic_error&) {
    list.throw_damaged("is not a shape");
  }
}

/// Reads a list of at most `max_step_sums` metrics.
std::vector<metric_value> metrics_of(const field& list) {
  std::vector<metric_value> out;
  list.each([&](const field& one) {
    if (out.size() == max_step_sums)
      list.throw_damaged("is too long");
    out.push_back({one["name"].text(), one["value"].real()});
  });
  return out;
}

/// Reads the sums of a step's metrics.
std::vector<double> sums_of(const field& list) {
  std::vector<double> out;
  list.each([&](const field& one) {
    if (out.size() == max_step_sums)
      list.throw_damaged("is too long");
    out.push_back(one.real());
  });
  return out;
}

/// Version of the format that first has a list of metrics. In earlier versions
/// the accuracy is the only metric.
constexpr std::uint32_t metrics_version = 3;

models::precision precision_of(const field& name) {
  if (const auto found = models::find_precision(name.text()))
    return *found;
  name.throw_damaged("is not the name of a precision");
}

epoch_record epoch_of(const field& object, std::uint32_t version) {
  epoch_record record;
  record.epoch = object["epoch"].count();
  record.steps = object["steps"].count();
  record.examples = object["examples"].count();
  record.loss = object["loss"].real();
  record.validation_loss = object["validation_loss"].real();
  if (version < metrics_version) {
    record.metrics = {{"accuracy", object["accuracy"].real()}};
    const auto validation = object["validation_accuracy"].real();
    if (!std::isnan(record.validation_loss) || !std::isnan(validation))
      record.validation_metrics = {{"accuracy", validation}};
  } else {
    record.metrics = metrics_of(object["metrics"]);
    record.validation_metrics = metrics_of(object["validation_metrics"]);
  }
  record.accuracy = accuracy_in(record.metrics);
  record.validation_accuracy = accuracy_in(record.validation_metrics);
  record.learning_rate = object["learning_rate"].real();
  record.seconds = object["seconds"].real();
  return record;
}

fit_position position_of(const field& object, std::uint32_t version) {
  fit_position out;
  out.next_batch = {object["pass"].count(), object["batch"].count()};
  if (version > 1)
    out.first_epoch = object["first_pass"].count();
  if (out.first_epoch > out.next_batch.epoch)
    object["first_pass"].throw_damaged("is greater than \"fit.pass\"");
  out.batches = object["batches"].count();
  out.replicas = object["replicas"].count<std::uint32_t>();
  if (object.has("replica_shares"))
    object["replica_shares"].each([&](const field& one) {
      out.replica_shares.push_back(one.count<std::uint32_t>());
    });
  if (object.has("data")) {
    const auto data = object["data"];
    out.data =
      data_identity{out.batches, std::nullopt, data["first_batch"].text(), {}};
    if (data.has("last_batch"))
      out.data->last_batch = data["last_batch"].text();
    if (data.has("examples"))
      out.data->examples = data["examples"].count();
  }
  const auto totals = object["totals"];
  out.totals.examples = totals["examples"].count();
  out.totals.seconds = totals["seconds"].real();
  if (version < metrics_version) {
    out.metrics = metric_list{{models::accuracy_metric()}}.description();
    out.totals.sums = {totals["loss_sum"].real(), 0, totals["correct"].real(),
                       static_cast<double>(out.totals.examples)};
  } else {
    out.metrics = object["metrics"].text();
    out.totals.sums = sums_of(totals["sums"]);
  }
  object["epochs"].each(
    [&](const field& one) { out.epochs.push_back(epoch_of(one, version)); });
  const auto early = object["early_stopping"];
  out.best_metric = early["best"].real();
  out.best_epoch = early["best_epoch"].count();
  out.epochs_without_improvement = early["waited"].count();
  return out;
}

saved_position saved_position_of(const field& object) {
  saved_position out;
  constexpr std::size_t digits = 16; // as `to_json` writes it
  const auto id = object["id"].text();
  const auto* const end = id.data() + id.size();
  const auto [last, error] = std::from_chars(id.data(), end, out.job, 16);
  if (error != std::errc{} || last != end || id.size() != digits)
    object["id"].throw_damaged("is not a number of 16 hexadecimal digits");
  out.view = object["view"].count();
  out.call = object["call"].count();
  return out;
}

json parsed(std::string_view text, const std::string& file_name) {
  // The parser calls itself for each nested bracket, so the depth must be
  // checked during parsing.
  const auto check = [&](int depth, json::parse_event_t, json&) {
    if (depth > max_brackets)
      throw std::runtime_error(file_name
                               + " is damaged: its header has brackets "
                                 "nested more than "
                               + std::to_string(max_brackets) + " deep");
    return true;
  };
  auto x = json::parse(text, check, false);
  if (x.is_discarded())
    throw std::runtime_error(file_name
                             + " is damaged: its header is not valid JSON");
  return x;
}

} // namespace

bool is_later(const saved_position& a, const saved_position& b) {
  return a.job == b.job && std::tie(a.view, a.call) > std::tie(b.view, b.call);
}

std::string write_header(const saved_header& header) {
  auto list = ordered::array();
  for (const auto& one : header.parameters)
    list.push_back(
      {{"name", one.name},
       {"shape", std::vector<std::int64_t>(one.dims.begin(), one.dims.end())}});
  auto numbers = ordered::object();
  for (const auto& [name, value] : header.optimizer_numbers)
    numbers[name] = value;
  ordered object{
    {"troupe", version},
    {"model", ordered::parse(models::to_json_text(header.model))},
    {"loss", header.loss},
    {"optimizer", {{"name", header.optimizer}, {"numbers", numbers}}},
    {"seed", header.seed},
    {"steps", header.steps},
    {"passes", header.next_epoch},
    {"parameters", std::move(list)},
    {"best_weights", header.best_weights},
    {"note", header.note}};
  if (header.precision != models::precision::float32)
    object["precision"] = models::to_string(header.precision);
  if (header.saved_at)
    object["job"] = to_json(*header.saved_at);
  // A Troupe that does not know complete fits must not resume one.
  if (header.fit)
    object[header.fit->is_complete ? "complete_fit" : "fit"] =
      to_json(*header.fit);
  return object.dump(-1, ' ', false, ordered::error_handler_t::replace);
}

saved_header read_header(std::string_view text, std::uint32_t version,
                         const std::string& file_name) {
  const auto document = parsed(text, file_name);
  const field top{document, {}, file_name};
  saved_header header;
  header.model =
    models::parse(top["model"].raw().dump(), "the model in " + file_name);
  header.loss = top["loss"].text();
  header.optimizer = top["optimizer"]["name"].text();
  top["optimizer"]["numbers"].entries(
    [&](const std::string& name, const field& value) {
      header.optimizer_numbers.push_back({name, value.real()});
    });
  if (top.has("precision"))
    header.precision = precision_of(top["precision"]);
  header.seed = top["seed"].count();
  header.steps = top["steps"].count();
  top["parameters"].each([&](const field& one) {
    header.parameters.push_back({one["name"].text(), shape_of(one["shape"])});
  });
  header.best_weights = top["best_weights"].flag();
  header.note = top["note"].text();
  if (top.has("job"))
    header.saved_at = saved_position_of(top["job"]);
  if (top.has("fit"))
    header.fit = position_of(top["fit"], version);
  if (top.has("complete_fit")) {
    if (header.fit)
      top["complete_fit"].throw_damaged("stands beside \"fit\"");
    header.fit = position_of(top["complete_fit"], version);
    header.fit->is_complete = true;
  }
  if (version > 1)
    header.next_epoch = top["passes"].count();
  else if (header.fit)
    header.next_epoch =
      header.fit->next_batch.epoch + (header.fit->next_batch.index > 0 ? 1 : 0);
  return header;
}

} // namespace troupe
