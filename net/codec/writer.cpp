#include "troupe/net/codec/writer.hpp"

#include <cereal/archives/portable_binary.hpp>
#include <ostream>
#include <streambuf>

namespace troupe::net {

struct writer::output {
  using options = cereal::PortableBinaryOutputArchive::Options;

  struct buffer final : std::streambuf {
    std::vector<std::byte> bytes;

    std::streamsize xsputn(const char* from, std::streamsize count) override {
      const auto* begin = reinterpret_cast<const std::byte*>(from);
      bytes.insert(bytes.end(), begin, begin + count);
      return count;
    }
    int_type overflow(int_type x) override {
      bytes.push_back(static_cast<std::byte>(x));
      return x;
    }
  };

  buffer written;
  std::ostream stream{&written};
  cereal::PortableBinaryOutputArchive archive{stream, options::LittleEndian()};
};

writer::writer() : output_{std::make_unique<output>()} {}

writer::~writer() = default;

void writer::raw(std::span<const std::byte> bytes) {
  auto& all = output_->written.bytes;
  all.insert(all.end(), bytes.begin(), bytes.end());
}

void writer::reserve(std::size_t more) {
  output_->written.bytes.reserve(output_->written.bytes.size() + more);
}

std::vector<std::byte> writer::bytes() && {
  return std::move(output_->written.bytes);
}

template <std::size_t Size>
void writer::put_numbers(const void* numbers, std::size_t count) {
  output_->archive.saveBinary<Size>(numbers,
                                    static_cast<std::streamsize>(Size * count));
}

template void writer::put_numbers<1>(const void*, std::size_t);
template void writer::put_numbers<2>(const void*, std::size_t);
template void writer::put_numbers<4>(const void*, std::size_t);
template void writer::put_numbers<8>(const void*, std::size_t);

} // namespace troupe::net
