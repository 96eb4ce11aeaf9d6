#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::data {

/// Cuts the text of a table into records and fields.
/// @source RFC 4180; line ends are LF or CRLF, a byte order mark is skipped.
class csv_records {
public:
  /// @param name for sentences about the text.
  csv_records(std::string_view name, std::string_view text);

  /// Reads the next record into `fields()`; blank lines at the end are none.
  /// @errors throws std::runtime_error: a quote that is never closed or is
  ///         followed by something, a blank line in between.
  bool next();

  const std::vector<std::string>& fields() const { return fields_; }

  /// Of the record's first character, from 1.
  std::size_t line() const { return first_line_; }

private:
  [[noreturn]] void fail(const std::string& how) const;
  void read_field(std::string& to);
  bool end_line();
  bool at_end() const { return at_ == text_.size(); }

  std::string name_;
  std::string_view text_;
  std::size_t at_ = 0, line_ = 1, first_line_ = 0;
  std::vector<std::string> fields_;
};

/// In double quotes, printable and not long, whatever it is.
std::string in_quotes(std::string_view text);

} // namespace troupe::data
