#include "troupe/training/checkpoint/saved_model.hpp"

#include "troupe/net/base/log_rate_limiter.hpp"
#include "troupe/training/checkpoint/saved_header.hpp"
#include "troupe/training/support/atomic_file.hpp"
#include "troupe/training/support/sha256.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace troupe {

namespace fs = std::filesystem;

namespace {

// Layout: magic, version (4 bytes), length of the header (4), header, elements,
// SHA-256.
constexpr std::string_view magic{"TROUPE\x1a\n", 8};
constexpr std::size_t front_bytes = 16;
constexpr std::size_t hash_bytes = sizeof(sha256::value);
constexpr std::uint64_t largest_header = std::uint64_t{16} << 20;

/// Calls `fn(bytes)` for each parameter's part of a flat buffer, in order.
template <class F>
void each_parameter(const parameters& own, const tensor& flat, F fn) {
  for (std::size_t i = 0; i < own.variables().size(); ++i) {
    const auto begin = own.offset(i);
    auto one = flat.range(begin, begin + own.variables()[i].dims().elements());
    fn(std::as_writable_bytes(one.mutable_data<float>()));
  }
}

/// Returns the flat buffers that a file contains, in order.
std::vector<tensor> buffers(const model_state& x) {
  std::vector<tensor> all{x.own.values(0)};
  all.insert(all.end(), x.slots[0].begin(), x.slots[0].end());
  if (x.interrupted && x.interrupted->best_weights)
    all.push_back(x.interrupted->best_weights);
  return all;
}

void put(std::string& to, std::uint32_t x) {
  for (int i = 0; i < 4; ++i)
    to += static_cast<char>(x >> 8 * i & 0xff);
}

std::uint32_t get(const char* from) {
  std::uint32_t x = 0;
  for (int i = 0; i < 4; ++i)
    x |= std::uint32_t{static_cast<unsigned char>(from[i])} << 8 * i;
  return x;
}

saved_header header_of(const model_state& x, const std::string& note) {
  saved_header out;
  out.model = x.net.description();
  out.parameters = x.net.parameters();
  out.loss = x.loss->name;
  out.optimizer = x.rule.name();
  out.optimizer_numbers = x.rule.numbers();
  out.seed = x.seed;
  out.steps = x.steps;
  out.passes = x.passes;
  out.note = note;
  out.fit = x.interrupted;
  out.best_weights = x.interrupted && x.interrupted->best_weights;
  return out;
}

/// Reads a saved model and checks it meanwhile.
class reader {
public:
  explicit reader(const fs::path& file) : where_{"\"" + file.string() + "\""} {
    std::error_code none;
    if (fs::is_directory(file, none))
      throw std::runtime_error(where_ + " is a directory; name a saved model");
    in_.open(file, std::ios::binary);
    if (!in_)
      throw std::runtime_error("cannot read " + where_ + ": "
                               + std::strerror(errno)
                               + "; name a file written by `save`");
    in_.seekg(0, std::ios::end);
    size_ =
      static_cast<std::uint64_t>(std::max<std::streamoff>(in_.tellg(), 0));
    in_.seekg(0);
  }

  const std::string& where() const { return where_; }

  saved_header header() {
    std::array<char, front_bytes> front;
    if (size_ < magic.size())
      refuse("is not a saved model");
    read(std::span{front}.first(magic.size()));
    if (std::string_view{front.data(), magic.size()} != magic)
      refuse("is not a saved model");
    if (size_ < front_bytes + hash_bytes)
      refuse("is truncated");
    read(std::span{front}.subspan(magic.size()));
    const auto version = get(front.data() + 8);
    if (version > saved_model_version)
      refuse("has version " + std::to_string(version)
             + " of the format, but this Troupe reads versions up to "
             + std::to_string(saved_model_version) + "; use a newer Troupe");
    const std::uint64_t length = get(front.data() + 12);
    if (version == 0 || length > largest_header)
      refuse("is damaged: its first bytes are invalid");
    if (length > size_ - front_bytes - hash_bytes)
      refuse("is truncated");
    std::string text(length, '\0');
    read(std::span{text.data(), text.size()});
    at_ = front_bytes + length;
    return read_header(text, version, where_);
  }

  /// Throws unless exactly that many bytes of elements remain in the file.
  void expect(std::uint64_t bytes) const {
    const auto left = size_ - at_ - hash_bytes;
    if (left < bytes)
      refuse("is truncated");
    if (left > bytes)
      refuse("is damaged: it is longer than its header requires");
  }

  void read(std::span<char> to) {
    in_.read(to.data(), static_cast<std::streamsize>(to.size()));
    if (static_cast<std::size_t>(in_.gcount()) != to.size())
      refuse("cannot be read completely");
    hash_.add(std::as_bytes(to));
  }

  void check_hash() {
    const auto found = hash_.finish();
    sha256::value told;
    in_.read(reinterpret_cast<char*>(told.data()), hash_bytes);
    if (!in_ || told != found)
      refuse("is damaged: its checksum does not match; use another copy");
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw std::runtime_error(where_ + " " + why);
  }

private:
  std::string where_;
  std::ifstream in_;
  std::uint64_t size_ = 0, at_ = 0;
  sha256 hash_;
};

/// Returns the bytes of one set of parameters in the file.
std::uint64_t payload_of(const models::network& net) {
  std::uint64_t elements = 0;
  for (const auto& one : net.parameters())
    elements += one.dims.elements();
  return elements * sizeof(float);
}

bool same(const std::vector<parameter_spec>& a,
          const std::vector<parameter_spec>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.name == y.name && x.dims == y.dims;
  });
}

std::unique_ptr<model_state> load(reader& in,
                                  std::shared_ptr<strategy_state> into) {
  auto told = in.header();
  const models::network net{told.model};
  if (!same(net.parameters(), told.parameters))
    in.refuse("is damaged: its parameters do not match its model");
  const update_rule rule{told.optimizer, told.optimizer_numbers};
  in.expect(payload_of(net) * (1 + rule.slots() + (told.best_weights ? 1 : 0)));
  auto x = std::make_unique<model_state>(
    told.model, rule, models::find_loss(told.loss), told.seed, std::move(into));
  x->steps = told.steps;
  x->passes = told.passes;
  x->note = std::move(told.note);
  x->interrupted = std::move(told.fit);
  if (told.best_weights) {
    if (!x->interrupted)
      in.refuse("is damaged: it contains best weights but no fit");
    x->interrupted->best_weights = tensor::zeros(x->own.values(0).dims());
  }
  for (const auto& flat : buffers(*x))
    each_parameter(x->own, flat, [&](std::span<std::byte> bytes) {
      in.read({reinterpret_cast<char*>(bytes.data()), bytes.size()});
    });
  in.check_hash();
  x->share_copy(0);
  return x;
}

} // namespace

void save_model(const model_state& x, const fs::path& file,
                const std::string& note) {
  const auto header = write_header(header_of(x, note));
  std::string front{magic};
  put(front, saved_model_version);
  put(front, static_cast<std::uint32_t>(header.size()));
  sha256 hash;
  safe_file out{file};
  const auto write = [&](std::span<const std::byte> bytes) {
    hash.add(bytes);
    out.write(bytes);
  };
  write(std::as_bytes(std::span{front}));
  write(std::as_bytes(std::span{header}));
  for (const auto& flat : buffers(x))
    each_parameter(x.own, flat, write);
  out.write(hash.finish());
  out.commit();
}

namespace {

template <class F>
auto reading(const reader& in, F fn) {
  try {
    return fn();
  } catch (const std::invalid_argument& e) {
    throw std::runtime_error("the model in " + in.where()
                             + " cannot be used: " + net::printable(e.what()));
  } catch (const std::logic_error& e) {
    throw std::runtime_error(in.where()
                             + " is damaged: " + net::printable(e.what()));
  }
}

} // namespace

std::unique_ptr<model_state> load_model(const fs::path& file,
                                        std::shared_ptr<strategy_state> into) {
  reader in{file};
  return reading(in, [&] { return load(in, std::move(into)); });
}

std::string saved_note(const fs::path& file) {
  reader in{file};
  return reading(in, [&] { return in.header().note; });
}

} // namespace troupe
