#include "troupe/data/sources/csv.hpp"

#include "troupe/data/sources/csv_records.hpp"
#include "troupe/data/sources/input_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace troupe::data {

namespace {

std::string text_of(const std::filesystem::path& name) {
  constexpr auto max_bytes = std::uint64_t{1} << 31;
  input_file file{name};
  if (file.is_compressed())
    throw std::runtime_error(file.name()
                             + " is compressed: decompress it (gunzip)");
  if (file.max_size() > max_bytes)
    throw std::runtime_error(file.name() + " has "
                             + std::to_string(file.max_size())
                             + " bytes: the maximum is 2147483648");
  std::string out(file.max_size(), '\0');
  file.read(std::as_writable_bytes(std::span{out}), "data");
  return out;
}

std::string_view trimmed(std::string_view x) {
  const auto first = std::min(x.find_first_not_of(" \t"), x.size());
  return x.substr(first, x.find_last_not_of(" \t") + 1 - first);
}

/// The columns of a table. Converts fields to numbers, and reports invalid
/// fields.
class table {
public:
  table(std::string name, const std::vector<std::string>& header,
        const csv_options& options)
    : name_{std::move(name)}, classes_{options.classes} {
    for (const auto& each : header)
      columns_.emplace_back(trimmed(each));
    if (columns_.size() < 2)
      fail("has one column, " + in_quotes(columns_[0])
           + ": an example needs a label and at least one number, separated by "
             "commas");
    label_ = options.label.empty() ? columns_.size() - 1 : find(options.label);
  }

  /// Converts the fields of one record.
  /// @errors throws std::runtime_error about the first invalid field.
  void add(const std::vector<std::string>& fields, std::size_t line,
           std::vector<float>& inputs,
           std::vector<std::int32_t>& labels) const {
    if (fields.size() != columns_.size())
      fail_at(line, ": " + std::to_string(fields.size())
                      + " fields, but the header names "
                      + std::to_string(columns_.size()) + " columns");
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const auto text = trimmed(fields[i]);
      if (text.empty())
        refuse(line, i,
               "the field is empty: fill it in, or leave the line out");
      if (i == label_)
        labels.push_back(label(text, line));
      else
        inputs.push_back(number(text, line, i));
    }
  }

  std::size_t inputs() const { return columns_.size() - 1; }

private:
  [[noreturn]] void fail(const std::string& how) const {
    throw std::runtime_error(name_ + " " + how);
  }

  [[noreturn]] void fail_at(std::size_t line, const std::string& how) const {
    throw std::runtime_error(name_ + ", line " + std::to_string(line) + how);
  }

  [[noreturn]] void refuse(std::size_t line, std::size_t column,
                           const std::string& how) const {
    fail_at(line, ", column " + in_quotes(columns_[column]) + ": " + how);
  }

  std::size_t find(const std::string& label) const {
    constexpr std::size_t max_names = 20;
    const auto count = std::ranges::count(columns_, label);
    if (count == 1)
      return static_cast<std::size_t>(std::ranges::find(columns_, label)
                                      - columns_.begin());
    if (count > 1)
      fail("has " + std::to_string(count) + " columns " + in_quotes(label)
           + ": give the label column a unique name");
    std::string column_names;
    for (std::size_t i = 0; i < std::min(columns_.size(), max_names); ++i)
      column_names += (i > 0 ? ", " : "") + in_quotes(columns_[i]);
    if (columns_.size() > max_names)
      column_names +=
        " and " + std::to_string(columns_.size() - max_names) + " more";
    throw std::invalid_argument(name_ + " has no column " + in_quotes(label)
                                + " for the labels: there are " + column_names);
  }

  float number(std::string_view text, std::size_t line, std::size_t i) const {
    float out = 0;
    const auto* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, out);
    if (problem == std::errc::result_out_of_range)
      refuse(line, i,
             in_quotes(text)
               + " does not fit a float32: scale the "
                 "column");
    if (problem != std::errc{} || stop != end)
      refuse(line, i,
             in_quotes(text)
               + " is not a number: write it with digits and "
                 "a decimal point");
    if (!std::isfinite(out))
      refuse(line, i, in_quotes(text) + " is not finite: leave the line out");
    return out;
  }

  std::int32_t label(std::string_view text, std::size_t line) const {
    const auto classes = classes_ > 0 ? classes_ : 65'536;
    std::int32_t out = 0;
    const auto* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, out);
    if (problem == std::errc::invalid_argument || stop != end)
      refuse(line, label_,
             in_quotes(text)
               + " is not a class number: labels are 0, "
                 "1, 2, ... (no regression)");
    if (problem != std::errc{} || out < 0 || out >= classes)
      refuse(line, label_,
             "label " + in_quotes(text) + " is not in [0, "
               + std::to_string(classes) + "): number the classes from 0 on");
    return out;
  }

  std::string name_;
  std::int64_t classes_;
  std::vector<std::string> columns_;
  std::size_t label_ = 0;
};

} // namespace

dataset csv(const std::filesystem::path& name, const csv_options& options) {
  const auto text = text_of(name);
  csv_records records{name.string(), text};
  if (!records.next())
    throw std::runtime_error(name.string()
                             + " is empty: a line with the columns' names and "
                               "lines with examples are needed");
  const table columns{name.string(), records.fields(), options};
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  while (records.next())
    columns.add(records.fields(), records.line(), inputs, labels);
  if (labels.empty())
    throw std::runtime_error(name.string()
                             + " holds no example: lines must follow the one "
                               "with the columns' names");
  const auto n = static_cast<std::int64_t>(labels.size());
  const auto width = static_cast<std::int64_t>(columns.inputs());
  return {tensor::of<float>({n, width}, inputs),
          tensor::of<std::int32_t>({n}, labels), options.classes};
}

} // namespace troupe::data
