#include "troupe/data/sources/csv.hpp"

#include "troupe/data/sources/csv_records.hpp"
#include "troupe/data/sources/text_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <stdexcept>
#include <vector>

namespace troupe::data {

namespace {

std::string_view trimmed(std::string_view x) {
  const auto first = std::min(x.find_first_not_of(" \t"), x.size());
  return x.substr(first, x.find_last_not_of(" \t") + 1 - first);
}

/// Parses a whole text as a number, which may begin with a plus sign.
/// @returns the error; `std::errc{}` for a number.
template <class T>
std::errc parse(std::string_view text, T& out) {
  if (text.starts_with('+') && !text.starts_with("+-"))
    text.remove_prefix(1);
  const auto* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, out);
  return problem == std::errc{} && stop != end ? std::errc::invalid_argument
                                               : problem;
}

/// True if the absolute value of a decimal number is below 1.
/// @pre `text` is a number.
bool is_below_1(std::string_view text) {
  const auto exponent_at = std::min(text.find_first_of("eE"), text.size());
  const auto digits = text.substr(0, exponent_at);
  const auto first = digits.find_first_of("123456789");
  if (first == digits.npos)
    return true;
  const auto point = std::min(digits.find('.'), digits.size());
  // The number is 0.d... times 10^magnitude, with a first digit d above 0.
  const auto magnitude = static_cast<std::int64_t>(point)
                         - static_cast<std::int64_t>(first)
                         + (first > point ? 1 : 0);
  std::int64_t exponent = 0;
  if (exponent_at < text.size()
      && parse(text.substr(exponent_at + 1), exponent)
           == std::errc::result_out_of_range)
    return text[exponent_at + 1] == '-';
  return magnitude + exponent <= 0;
}

/// The examples that were read so far.
struct rows {
  std::vector<float> inputs, targets;
  std::vector<std::int32_t> labels;
  std::int64_t count = 0;
};

/// The columns of a table. Converts fields to numbers, and reports invalid
/// fields.
class table {
public:
  table(std::string name, const std::vector<std::string>& header,
        const csv_options& options)
    : name_{std::move(name)}, classes_{options.classes} {
    for (const auto& each : header)
      columns_.emplace_back(trimmed(each));
    uses_.assign(columns_.size(),
                 options.inputs.empty() ? use::input : use::ignored);
    if (columns_.size() < 2 && options.labelled)
      fail("has one column, " + in_quotes(columns_[0])
           + ": an example needs a label and at least one number, separated by "
             "commas");
    for (const auto& each : options.ignored)
      uses_[find(each, "to ignore")] = use::ignored;
    if (options.labelled && options.targets.empty())
      uses_[find(options.label, "for the labels")] = use::label;
    for (const auto& each :
         options.labelled ? options.targets : std::vector<std::string>{}) {
      targets_.push_back(find(each, "for the targets"));
      uses_[targets_.back()] = use::target;
    }
    for (const auto& each : options.inputs)
      use_as_input(each, options);
    for (std::size_t i = 0; options.inputs.empty() && i < uses_.size(); ++i)
      if (uses_[i] == use::input)
        inputs_.push_back(i);
    check_names();
    if (inputs() == 0)
      fail("has no column that is an input: an example needs at least one "
           "number");
    target_values_.resize(targets_.size());
    input_values_.resize(inputs_.size());
    places_.resize(columns_.size());
    for (std::size_t k = 0; k < inputs_.size(); ++k)
      places_[inputs_[k]] = k;
    if (options.warn)
      warn_about_numbers(options.warn);
  }

  /// Converts the fields of one record.
  /// @errors throws std::runtime_error about the first invalid field.
  void add(const std::vector<std::string>& fields, std::size_t line,
           rows& out) {
    if (fields.size() != columns_.size())
      fail_at(line, ": " + std::to_string(fields.size())
                      + " fields, but the header names "
                      + std::to_string(columns_.size()) + " columns");
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (uses_[i] == use::ignored)
        continue;
      const auto text = trimmed(fields[i]);
      if (text.empty())
        refuse(line, i,
               "the field is empty: fill it in, or leave the line out");
      if (uses_[i] == use::label)
        out.labels.push_back(label(text, line, i));
      else if (uses_[i] == use::input)
        input_values_[places_[i]] = number(text, line, i);
      else
        for (std::size_t k = 0; k < targets_.size(); ++k)
          if (targets_[k] == i)
            target_values_[k] = number(text, line, i);
    }
    out.inputs.insert(out.inputs.end(), input_values_.begin(),
                      input_values_.end());
    out.targets.insert(out.targets.end(), target_values_.begin(),
                       target_values_.end());
    ++out.count;
  }

  std::int64_t inputs() const { return std::ssize(inputs_); }

  std::vector<std::string> input_names() const { return names_of(inputs_); }

  std::vector<std::string> label_names() const {
    auto out = names_of(targets_);
    for (std::size_t i = 0; i < uses_.size(); ++i)
      if (uses_[i] == use::label)
        out.push_back(columns_[i]);
    return out;
  }

private:
  enum class use : std::uint8_t { input, label, target, ignored };

  /// Two columns of one name are likely one column twice, or the wrong one.
  void check_names() const {
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (uses_[i] != use::ignored && !seen.insert(columns_[i]).second)
        fail("has two columns " + in_quotes(columns_[i])
             + ": give each a name of its own, or remove one");
  }

  std::vector<std::string>
  names_of(const std::vector<std::size_t>& numbers) const {
    std::vector<std::string> out;
    for (const auto i : numbers)
      out.push_back(columns_[i]);
    return out;
  }

  /// @errors throws std::invalid_argument if the column has another use too.
  void use_as_input(const std::string& column, const csv_options& options) {
    const auto i = find(column, "for the inputs");
    if (uses_[i] == use::input)
      throw std::invalid_argument(name_ + ": the column "
                                  + in_quotes(columns_[i])
                                  + " is an input twice; name it once");
    if (uses_[i] != use::ignored || std::ranges::count(options.ignored, column))
      throw std::invalid_argument(name_ + ": the column "
                                  + in_quotes(columns_[i])
                                  + " cannot be an input and a label; name "
                                    "another column of labels");
    uses_[i] = use::input;
    inputs_.push_back(i);
  }

  void warn_about_numbers(
    const std::function<void(const std::string&)>& warn) const {
    double ignored = 0;
    for (const auto& each : columns_)
      if (parse(each, ignored) != std::errc{})
        return;
    warn(name_ + ", line 1: the names of all columns are numbers, such as "
         + in_quotes(columns_[0])
         + "; if this line is an example, insert a line with the columns' "
           "names before it");
  }

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

  /// Returns the index of a column. An empty name: the last column.
  /// @param purpose what the column is for, in the error message.
  std::size_t find(const std::string& column, const char* purpose) const {
    constexpr std::size_t max_names = 20;
    if (column.empty())
      return columns_.size() - 1;
    const auto count = std::ranges::count(columns_, column);
    if (count == 1)
      return static_cast<std::size_t>(std::ranges::find(columns_, column)
                                      - columns_.begin());
    if (count > 1)
      fail("has " + std::to_string(count) + " columns " + in_quotes(column)
           + ": give the label column a unique name");
    std::string column_names;
    for (std::size_t i = 0; i < std::min(columns_.size(), max_names); ++i)
      column_names += (i > 0 ? ", " : "") + in_quotes(columns_[i]);
    if (columns_.size() > max_names)
      column_names +=
        " and " + std::to_string(columns_.size() - max_names) + " more";
    throw std::invalid_argument(name_ + " has no column " + in_quotes(column)
                                + " " + purpose + ": there are "
                                + column_names);
  }

  float number(std::string_view text, std::size_t line, std::size_t i) const {
    float out = 0;
    const auto problem = parse(text, out);
    if (problem == std::errc::result_out_of_range && is_below_1(text))
      return 0;
    if (problem == std::errc::result_out_of_range)
      refuse(line, i,
             in_quotes(text)
               + " does not fit a float32: scale the "
                 "column");
    if (problem != std::errc{})
      refuse(line, i,
             in_quotes(text)
               + " is not a number: write it with digits and "
                 "a decimal point");
    if (!std::isfinite(out))
      refuse(line, i, in_quotes(text) + " is not finite: leave the line out");
    return out;
  }

  std::int32_t label(std::string_view text, std::size_t line,
                     std::size_t i) const {
    const auto classes = classes_ > 0 ? classes_ : 65'536;
    std::int32_t out = 0;
    auto problem = parse(text, out);
    // A column that once had a gap is often written as 0.0, 1.0, ...
    if (double real = 0; problem == std::errc::invalid_argument
                         && parse(text, real) == std::errc{}
                         && std::trunc(real) == real
                         && std::abs(real) <= 1 << 30) {
      out = static_cast<std::int32_t>(real);
      problem = std::errc{};
    }
    if (problem == std::errc::invalid_argument)
      refuse(line, i,
             in_quotes(text)
               + " is not a class number: labels are 0, 1, 2, ...; to learn "
                 "numbers, name the column in csv_options::targets, in the "
                 "tool --loss mean_squared_error");
    if (problem != std::errc{} || out < 0 || out >= classes)
      refuse(line, i,
             "label " + in_quotes(text) + " is not in [0, "
               + std::to_string(classes) + "): number the classes from 0 on");
    return out;
  }

  std::string name_;
  std::int64_t classes_;
  std::vector<std::string> columns_;
  std::vector<use> uses_;            ///< By column.
  std::vector<std::size_t> inputs_;  ///< Columns, in the order of the inputs.
  std::vector<std::size_t> places_;  ///< Place of each column among the inputs.
  std::vector<float> input_values_;  ///< Inputs of the record in `add`.
  std::vector<std::size_t> targets_; ///< Columns, in the order of the options.
  std::vector<float> target_values_; ///< Targets of the record in `add`.
};

/// Warns about classes without an example: then the labels often count from 1.
void warn_about_classes(const std::string& name,
                        const std::vector<std::int32_t>& labels,
                        const std::function<void(const std::string&)>& warn) {
  std::vector<bool> has_example(
    static_cast<std::size_t>(std::ranges::max(labels)) + 1);
  for (const auto label : labels)
    has_example[static_cast<std::size_t>(label)] = true;
  const auto missing = std::ranges::count(has_example, false);
  if (missing == 0)
    return;
  const auto first =
    std::to_string(std::ranges::find(has_example, false) - has_example.begin());
  warn(name + ": the labels are those of " + std::to_string(has_example.size())
       + " classes, from 0 on, but "
       + (missing == 1
            ? "class " + first + " has no example"
            : std::to_string(missing)
                + " classes have no example, the first is class " + first)
       + "; number the classes from 0 on, without a gap");
}

} // namespace

dataset csv(const std::filesystem::path& name, const csv_options& options) {
  return read_csv(name, options).examples;
}

csv_table read_csv(const std::filesystem::path& name,
                   const csv_options& options) {
  const auto text = read_text(name);
  csv_records records{name.string(), text};
  if (!records.next())
    throw std::runtime_error(name.string()
                             + " is empty: a line with the columns' names and "
                               "lines with examples are needed");
  if (options.classes != 0 && (!options.labelled || !options.targets.empty()))
    throw std::invalid_argument(std::to_string(options.classes)
                                + " classes: a table without class labels has "
                                  "none; leave the number out");
  table columns{name.string(), records.fields(), options};
  rows examples;
  while (records.next())
    columns.add(records.fields(), records.line(), examples);
  if (examples.count == 0)
    throw std::runtime_error(name.string()
                             + " holds no example: lines must follow the one "
                               "with the columns' names");
  if (options.warn && options.classes == 0 && !examples.labels.empty())
    warn_about_classes(name.string(), examples.labels, options.warn);
  const auto n = examples.count;
  auto inputs = tensor::of<float>({n, columns.inputs()}, examples.inputs);
  const auto with_names = [&](dataset rows) {
    return csv_table{std::move(rows), columns.input_names(),
                     columns.label_names()};
  };
  if (!options.labelled)
    return with_names({std::move(inputs), tensor{}});
  if (options.targets.empty())
    return with_names({std::move(inputs),
                       tensor::of<std::int32_t>({n}, examples.labels),
                       options.classes});
  const auto targets = std::ssize(options.targets);
  return with_names(
    {std::move(inputs), tensor::of<float>({n, targets}, examples.targets)});
}

} // namespace troupe::data
