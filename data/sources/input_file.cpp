#include "troupe/data/sources/input_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <zlib.h>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

/// Maximum compression ratio of deflate, 1032 to 1.
/// @source zlib, "Technical details".
constexpr std::uint64_t max_compression_ratio = 1032;

[[noreturn]] void damaged(const std::string& name, const std::string& how) {
  throw std::runtime_error(name + " " + how + ": get another copy");
}

std::FILE* open_regular(const fs::path& name) {
  std::error_code problem;
  const auto is = fs::status(name, problem);
  if (fs::is_directory(is))
    throw std::runtime_error(name.string() + " is a folder: give a file in it");
  if (fs::exists(is) && !fs::is_regular_file(is))
    throw std::runtime_error(name.string()
                             + " is not a regular file: copy "
                               "its data to one");
  auto* file = std::fopen(name.c_str(), "rb");
  if (!file)
    throw std::runtime_error("cannot read " + name.string() + ": "
                             + std::strerror(errno));
  return file;
}

} // namespace

struct input_file::gzip_reader {
  gzip_reader() {
    constexpr int gzip_only = MAX_WBITS + 16;
    if (inflateInit2(&state, gzip_only) != Z_OK)
      throw std::bad_alloc{};
  }
  ~gzip_reader() { inflateEnd(&state); }

  z_stream state{};
  bool ended = false; ///< The checksum of a gzip member was read and matches.
  std::array<unsigned char, 1 << 16> input_buffer{};
};

input_file::input_file(const fs::path& name)
  : name_{name.string()}, file_{open_regular(name), &std::fclose} {
  size_ = fs::file_size(name);
  std::array<unsigned char, 2> magic{};
  const auto read = std::fread(magic.data(), 1, magic.size(), file_.get());
  if (read == 2 && magic[0] == 0x1f && magic[1] == 0x8b)
    gzip_reader_ = std::make_unique<gzip_reader>();
  std::rewind(file_.get());
}

input_file::~input_file() = default;

std::uint64_t input_file::max_size() const {
  return is_compressed() ? size_ * max_compression_ratio : size_;
}

void input_file::read(std::span<std::byte> destination, const char* section) {
  const auto wanted = destination.size();
  while (!destination.empty()) {
    const auto got = read_some(destination);
    if (got == 0)
      damaged(name_, std::string{"ends within its "} + section + ", after "
                       + std::to_string(wanted - destination.size()) + " of "
                       + std::to_string(wanted) + " bytes");
    destination = destination.subspan(got);
  }
}

void input_file::finish() {
  std::array<std::byte, 1> more;
  if (read_some(more) > 0)
    damaged(name_, "continues after the data that its header declares");
}

std::size_t input_file::read_some(std::span<std::byte> destination) {
  if (is_compressed())
    return read_compressed(destination);
  const auto got =
    std::fread(destination.data(), 1, destination.size(), file_.get());
  if (got == 0 && std::ferror(file_.get()))
    throw std::runtime_error("cannot read " + name_ + ": "
                             + std::strerror(errno));
  return got;
}

std::size_t input_file::read_compressed(std::span<std::byte> destination) {
  auto& stream = gzip_reader_->state;
  const auto capacity =
    static_cast<uInt>(std::min(destination.size(), std::size_t{1} << 30));
  stream.next_out = reinterpret_cast<Bytef*>(destination.data());
  stream.avail_out = capacity;
  while (stream.avail_out == capacity) {
    if (stream.avail_in == 0) {
      stream.next_in = gzip_reader_->input_buffer.data();
      stream.avail_in = static_cast<uInt>(
        std::fread(gzip_reader_->input_buffer.data(), 1,
                   gzip_reader_->input_buffer.size(), file_.get()));
      if (stream.avail_in == 0) {
        if (!gzip_reader_->ended)
          damaged(name_, "ends within its compressed data");
        break;
      }
    }
    if (std::exchange(gzip_reader_->ended, false))
      inflateReset(&stream); // Another gzip member may follow.
    const auto state = inflate(&stream, Z_NO_FLUSH);
    if (state == Z_STREAM_END)
      gzip_reader_->ended = true;
    else if (state != Z_OK)
      damaged(name_, std::string{"holds damaged gzip data ("}
                       + (stream.msg ? stream.msg : "incomplete") + ")");
  }
  return capacity - stream.avail_out;
}

} // namespace troupe::data
