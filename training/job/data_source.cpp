#include "troupe/training/job/data_source.hpp"

#include "troupe/data/sources/csv.hpp"
#include "troupe/data/sources/digits.hpp"
#include "troupe/data/sources/idx.hpp"

#include <charconv>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace troupe {

namespace {

constexpr std::uint64_t default_digits = 14'000, test_part_of_digits = 7;
constexpr double training_part_of_csv = 0.8;

struct source {
  std::string_view kind, rest;
  bool has_rest = false;
};

source split_name(std::string_view name) {
  const auto colon = name.find(':');
  if (colon == name.npos)
    return {name, {}, false};
  return {name.substr(0, colon), name.substr(colon + 1), true};
}

[[noreturn]] void refuse(std::string_view name, const std::string& why) {
  throw std::invalid_argument("data \"" + std::string{name} + "\" " + why);
}

void need_rest(std::string_view name, const source& x, const char* what) {
  if (x.rest.empty())
    refuse(name, "has no " + std::string{what} + "; write "
                   + std::string{x.kind} + ":" + what);
}

std::uint64_t number_of_digits(std::string_view name, const source& x) {
  if (!x.has_rest)
    return default_digits;
  std::uint64_t n = 0;
  const auto* last = x.rest.data() + x.rest.size();
  const auto [end, error] = std::from_chars(x.rest.data(), last, n);
  if (error != std::errc{} || end != last || n < test_part_of_digits
      || n > (std::uint64_t{1} << 24))
    refuse(name, "needs a number of examples from "
                   + std::to_string(test_part_of_digits)
                   + " to 16777216; write digits:14000");
  return n;
}

data::dataset table(std::string_view name, const source& x) {
  need_rest(name, x, "FILE");
  data::csv_options options;
  std::string file{x.rest};
  // The text after the last colon is a column, unless the whole text names a
  // file.
  if (const auto colon = file.rfind(':');
      colon != file.npos && !std::filesystem::exists(file)) {
    options.label = file.substr(colon + 1);
    file.resize(colon);
  }
  return data::csv(file, options);
}

data::dataset images(std::string_view name, const source& x) {
  need_rest(name, x, "FILE");
  const auto bytes = data::read_idx(std::string{x.rest});
  const auto& dims = bytes.dims();
  if (dims.rank() < 2)
    refuse(name, "holds " + to_string(bytes.spec())
                   + ", which is not a set of images; give a file of images");
  std::vector<std::int64_t> extents(dims.begin(), dims.end());
  if (extents.size() == 3)
    extents.push_back(1); // A single gray channel.
  tensor inputs{shape{extents}};
  const auto from = bytes.data<std::uint8_t>();
  const auto to = inputs.mutable_data<float>();
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<float>(from[i]) / 255.0f;
  return {inputs, tensor::zeros({dims.front()}, dtype::int32)};
}

[[noreturn]] void unknown(std::string_view name, const char* also) {
  refuse(name, "is unknown; give digits, digits:N, mnist:FOLDER, csv:FILE, "
               "csv:FILE:COLUMN"
                 + std::string{also});
}

} // namespace

data::dataset::parts open_data(std::string_view name) {
  const auto x = split_name(name);
  if (x.kind == "digits") {
    const auto n = number_of_digits(name, x);
    const auto all = data::digits({.examples = n});
    const auto training = n - n / test_part_of_digits;
    return {all.take(training), all.skip(training)};
  }
  if (x.kind == "mnist") {
    need_rest(name, x, "FOLDER");
    return data::mnist(std::string{x.rest});
  }
  if (x.kind == "csv")
    return table(name, x)
      .shuffle(data::whole, 0, false)
      .split(training_part_of_csv);
  unknown(name, "");
}

data::dataset open_to_predict(std::string_view name) {
  const auto x = split_name(name);
  if (x.kind == "digits" || x.kind == "mnist")
    return open_data(name).test;
  if (x.kind == "csv")
    return table(name, x);
  if (x.kind == "idx")
    return images(name, x);
  unknown(name, " or idx:FILE");
}

} // namespace troupe
