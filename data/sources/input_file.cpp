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
constexpr std::uint64_t largest_gain = 1032;

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

struct byte_file::unpacker {
  unpacker() {
    constexpr int gzip_only = MAX_WBITS + 16;
    if (inflateInit2(&state, gzip_only) != Z_OK)
      throw std::bad_alloc{};
  }
  ~unpacker() { inflateEnd(&state); }

  z_stream state{};
  bool ended = false; ///< The checksum of a gzip member was read and matches.
  std::array<unsigned char, 1 << 16> in{};
};

byte_file::byte_file(const fs::path& name)
  : name_{name.string()}, file_{open_regular(name), &std::fclose} {
  size_ = fs::file_size(name);
  std::array<unsigned char, 2> magic{};
  const auto read = std::fread(magic.data(), 1, magic.size(), file_.get());
  if (read == 2 && magic[0] == 0x1f && magic[1] == 0x8b)
    unpack_ = std::make_unique<unpacker>();
  std::rewind(file_.get());
}

byte_file::~byte_file() = default;

std::uint64_t byte_file::most() const {
  return packed() ? size_ * largest_gain : size_;
}

void byte_file::read(std::span<std::byte> to, const char* what) {
  const auto wanted = to.size();
  while (!to.empty()) {
    const auto got = read_some(to);
    if (got == 0)
      damaged(name_, std::string{"ends within its "} + what + ", after "
                       + std::to_string(wanted - to.size()) + " of "
                       + std::to_string(wanted) + " bytes");
    to = to.subspan(got);
  }
}

void byte_file::finish() {
  std::array<std::byte, 1> more;
  if (read_some(more) > 0)
    damaged(name_, "continues after the data that its header declares");
}

std::size_t byte_file::read_some(std::span<std::byte> to) {
  if (packed())
    return read_packed(to);
  const auto got = std::fread(to.data(), 1, to.size(), file_.get());
  if (got == 0 && std::ferror(file_.get()))
    throw std::runtime_error("cannot read " + name_ + ": "
                             + std::strerror(errno));
  return got;
}

std::size_t byte_file::read_packed(std::span<std::byte> to) {
  auto& x = unpack_->state;
  const auto room =
    static_cast<uInt>(std::min(to.size(), std::size_t{1} << 30));
  x.next_out = reinterpret_cast<Bytef*>(to.data());
  x.avail_out = room;
  while (x.avail_out == room) {
    if (x.avail_in == 0) {
      x.next_in = unpack_->in.data();
      x.avail_in = static_cast<uInt>(
        std::fread(unpack_->in.data(), 1, unpack_->in.size(), file_.get()));
      if (x.avail_in == 0) {
        if (!unpack_->ended)
          damaged(name_, "ends within its compressed data");
        break;
      }
    }
    if (std::exchange(unpack_->ended, false))
      inflateReset(&x); // Another gzip member may follow.
    const auto state = inflate(&x, Z_NO_FLUSH);
    if (state == Z_STREAM_END)
      unpack_->ended = true;
    else if (state != Z_OK)
      damaged(name_, std::string{"holds damaged gzip data ("}
                       + (x.msg ? x.msg : "incomplete") + ")");
  }
  return room - x.avail_out;
}

} // namespace troupe::data
