#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::data {

/// Splits CSV text into records and fields. A byte order mark is skipped.
/// @source RFC 4180; lines end in LF, CRLF or CR.
class csv_records {
public:
  /// @param name Name of the text in error messages.
  csv_records(std::string_view name, std::string_view text);

  /// Reads the next record into `fields()`. Blank lines at the end are ignored.
  /// @returns false at the end of the text.
  /// @errors throws std::runtime_error if a quote is not closed or is followed
  ///         by other text, and for a blank line between records.
  bool next();

  const std::vector<std::string>& fields() const { return fields_; }

  /// Line of the first character of the record, counted from 1.
  std::size_t line() const { return first_line_; }

private:
  [[noreturn]] void fail(const std::string& how) const;
  void read_field(std::string& field);
  bool end_line();
  bool at_end() const { return position_ == text_.size(); }

  std::string name_;
  std::string_view text_;
  std::size_t position_ = 0, line_ = 1, first_line_ = 0;
  std::vector<std::string> fields_;
};

/// Quotes a text for an error message: control characters become `?`, and at
/// most 40 bytes are kept.
std::string in_quotes(std::string_view text);

} // namespace troupe::data
