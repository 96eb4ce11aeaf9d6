#include "troupe/data/sources/text_file.hpp"

#include "troupe/data/sources/input_file.hpp"

#include <cstdint>
#include <span>
#include <stdexcept>

namespace troupe::data {

std::string read_text(const std::filesystem::path& name) {
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

} // namespace troupe::data
