#include "troupe/data/sources/csv_records.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe::data {

csv_records::csv_records(std::string_view name, std::string_view text)
  : name_{name}, text_{text} {
  if (text_.starts_with("\xEF\xBB\xBF"))
    position_ = 3;
}

bool csv_records::next() {
  const auto blank_from = line_;
  while (end_line())
    continue;
  if (at_end())
    return false;
  first_line_ = blank_from;
  if (line_ != blank_from)
    fail("the line is blank: remove it");
  std::size_t count = 0;
  do {
    if (fields_.size() == count)
      fields_.emplace_back();
    read_field(fields_[count++]);
  } while (!at_end() && text_[position_] == ',' && ++position_);
  fields_.resize(count);
  if (!at_end() && !end_line())
    fail("a quoted field is followed by something other than a comma: write a "
         "quote within quotes twice");
  return true;
}

void csv_records::read_field(std::string& field) {
  field.clear();
  if (at_end() || text_[position_] != '"') {
    const auto end =
      std::min(text_.find_first_of(",\n\r", position_), text_.size());
    field = text_.substr(position_, end - position_);
    position_ = end;
    return;
  }
  for (++position_;; ++position_) {
    const auto end = text_.find('"', position_);
    if (end == text_.npos)
      fail("a quote is never closed");
    const auto piece = text_.substr(position_, end - position_);
    line_ += static_cast<std::size_t>(std::ranges::count(piece, '\n'));
    field += piece;
    position_ = end + 1;
    if (at_end() || text_[position_] != '"')
      return;
    field += '"';
  }
}

bool csv_records::end_line() {
  const auto left = text_.substr(position_);
  const std::size_t size = left.starts_with("\r\n") ? 2
                           : left.starts_with('\n') || left.starts_with('\r')
                             ? 1
                             : 0;
  position_ += size;
  line_ += size > 0;
  return size > 0;
}

void csv_records::fail(const std::string& how) const {
  throw std::runtime_error(name_ + ", line " + std::to_string(first_line_)
                           + ": " + how);
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t max_size = 40;
  std::string out{"\""};
  for (const auto c : text.substr(0, max_size))
    out += c < ' ' || c == 127 ? '?' : c;
  return out + (text.size() > max_size ? "...\"" : "\"");
}

} // namespace troupe::data
