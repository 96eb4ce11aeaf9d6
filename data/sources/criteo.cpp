#include "troupe/data/sources/criteo.hpp"

#include "troupe/data/sources/csv_records.hpp"
#include "troupe/data/sources/text_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::data {

namespace {

constexpr std::size_t numbers = 13, categories = 26;

/// The finalizer of MurmurHash3, a permutation of the 32-bit numbers.
/// @source Appleby, https://github.com/aappleby/smhasher, fmix32.
constexpr std::uint32_t mixed(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x85EB'CA6B;
  x ^= x >> 13;
  x *= 0xC2B2'AE35;
  return x ^ x >> 16;
}

/// Reads the lines of a file one by one.
class reader {
public:
  reader(std::string name, std::string_view text, const criteo_options& options)
    : name_{std::move(name)}, text_{text}, options_{options} {}

  void read_all() {
    while (!text_.empty()) {
      ++line_;
      const auto end = std::min(text_.find('\n'), text_.size());
      auto line = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      if (line.ends_with('\r'))
        line.remove_suffix(1);
      if (line.empty()) {
        if (text_.find_first_not_of("\r\n") == text_.npos)
          break; // blank lines at the end are ignored
        fail(": the line is blank: remove it");
      }
      read(line);
    }
    if (count_ == 0)
      throw std::runtime_error(name_
                               + " is empty: a line for each example is "
                                 "needed");
  }

  dataset examples() const {
    const auto n = count_;
    batch out;
    out.inputs = tensor::of<float>({n, std::int64_t{numbers}}, inputs_);
    if (options_.labelled)
      out.labels = tensor::of<float>({n, 1}, labels_);
    out.others.push_back(
      {"categories",
       tensor::of<std::int32_t>({n, std::int64_t{categories}}, categories_)});
    return dataset::of(std::move(out));
  }

private:
  [[noreturn]] void fail(const std::string& how) const {
    throw std::runtime_error(name_ + ", line " + std::to_string(line_) + how);
  }

  [[noreturn]] void refuse(const std::string& column, std::string_view text,
                           const std::string& how) const {
    fail(", column " + column + ": " + in_quotes(text) + " " + how);
  }

  void read(std::string_view line) {
    const auto count =
      static_cast<std::size_t>(std::ranges::count(line, '\t')) + 1;
    const auto without_label = numbers + categories;
    const bool has_label = options_.labelled || count == without_label + 1;
    if (count != without_label + has_label)
      fail(": " + std::to_string(count) + (count == 1 ? " field" : " fields")
           + ", but a line has " + std::to_string(without_label + 1)
           + ", separated by tabs: the label, I1 to I13 and C1 to C26");
    const auto next = [&] {
      const auto end = std::min(line.find('\t'), line.size());
      const auto field = line.substr(0, end);
      line.remove_prefix(std::min(end + 1, line.size()));
      return field;
    };
    if (has_label) {
      const auto text = next();
      if (options_.labelled)
        labels_.push_back(label(text));
    }
    for (std::size_t i = 1; i <= numbers; ++i)
      inputs_.push_back(number(next(), i));
    for (std::size_t i = 1; i <= categories; ++i)
      categories_.push_back(category(next(), i));
    ++count_;
  }

  float label(std::string_view text) const {
    if (text != "0" && text != "1")
      refuse("label", text, "is not a label: give 1 for a click, or 0");
    return text == "1" ? 1.0f : 0.0f;
  }

  float number(std::string_view text, std::size_t i) const {
    if (text.empty())
      return 0;
    std::int64_t x = 0;
    const auto* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, x);
    if (problem == std::errc::result_out_of_range)
      refuse("I" + std::to_string(i), text, "does not fit 64 bits");
    if (problem != std::errc{} || stop != end)
      refuse("I" + std::to_string(i), text,
             "is not an integer: write it with digits, or leave the field "
             "empty");
    return static_cast<float>(
      std::log1p(static_cast<double>(std::max<std::int64_t>(x, 0))));
  }

  std::int32_t category(std::string_view text, std::size_t i) const {
    if (text.empty())
      return 0;
    std::uint32_t x = 0;
    const auto* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, x, 16);
    if (problem != std::errc{} || stop != end || text.size() > 8)
      refuse("C" + std::to_string(i), text,
             "is not a category: write 1 to 8 hexadecimal digits, or leave the "
             "field empty");
    const auto named = static_cast<std::uint32_t>(options_.rows - 1);
    return static_cast<std::int32_t>(1 + mixed(x) % named);
  }

  std::string name_;
  std::string_view text_; ///< What is not yet read.
  criteo_options options_;
  std::size_t line_ = 0; ///< Counted from 1.
  std::int64_t count_ = 0;
  std::vector<float> inputs_, labels_;
  std::vector<std::int32_t> categories_;
};

} // namespace

dataset criteo(const std::filesystem::path& name,
               const criteo_options& options) {
  if (options.rows < 2 || options.rows > 1 << 24)
    throw std::invalid_argument("categories that are hashed to "
                                + std::to_string(options.rows)
                                + " rows: give a number from 2 to 16777216");
  const auto text = read_text(name);
  reader lines{name.string(), text, options};
  lines.read_all();
  return lines.examples();
}

} // namespace troupe::data
