#include "troupe/training/checkpoint/saved_model.hpp"

#include "troupe/actors/core/log.hpp"
#include "troupe/net/base/log_rate_limiter.hpp"
#include "troupe/training/loop/model/finite_weights.hpp"
#include "troupe/training/support/atomic_file.hpp"
#include "troupe/training/support/sha256.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace fs = std::filesystem;

namespace {

// Layout of a file: magic, version (4 bytes), length of the header (4 bytes),
// header, elements, SHA-256 of all bytes before it.
constexpr std::string_view magic{"TROUPE\x1a\n", 8};
constexpr std::size_t front_bytes = 16;
constexpr std::size_t hash_bytes = sizeof(sha256::value);
constexpr std::uint64_t max_header_bytes = std::uint64_t{16} << 20;

/// Calls `fn(bytes)` for each parameter's part of `flat`, in order. A flat
/// buffer is one tensor on the CPU that has a part for each parameter.
template <class F>
void each_parameter(const parameters& model_parameters, const tensor& flat,
                    F fn) {
  for (std::size_t i = 0; i < model_parameters.variables().size(); ++i) {
    const auto begin = model_parameters.offset(i);
    auto one = flat.range(
      begin, begin + model_parameters.variables()[i].dims().elements());
    fn(std::as_writable_bytes(one.mutable_data<float>()));
  }
}

/// Returns the flat buffers that a file contains, in order.
std::vector<tensor> buffers(const model_state& state) {
  std::vector<tensor> flat_buffers{state.model_parameters.values(0)};
  flat_buffers.insert(flat_buffers.end(), state.slots[0].begin(),
                      state.slots[0].end());
  if (state.interrupted && state.interrupted->best_weights)
    flat_buffers.push_back(state.interrupted->best_weights);
  return flat_buffers;
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

saved_header make_header(const model_state& state, const std::string& note) {
  saved_header out;
  out.model = state.net.description();
  out.parameters = state.net.parameters();
  out.loss = state.loss->name;
  out.optimizer = state.rule.name();
  out.optimizer_numbers = state.rule.numbers();
  out.precision = state.net.precision();
  out.seed = state.seed;
  out.steps = state.loop_optimizer.steps();
  out.next_epoch = state.next_epoch;
  out.note = note;
  if (const auto& job = *state.strategy; job.job_id != 0)
    out.saved_at =
      saved_position{job.job_id, job.group->view_id(), job.all_calls()};
  out.fit = state.interrupted;
  out.best_weights = state.interrupted && state.interrupted->best_weights;
  return out;
}

/// The version before headers had a precision.
constexpr std::uint32_t version_without_precision = 3;

/// The version that a file gets. It is the latest one only if the layers do not
/// compute in float32, so an older Troupe reads all other files.
std::uint32_t version_of(const saved_header& header) {
  return header.precision == models::precision::float32
           ? version_without_precision
           : saved_model_version;
}

/// Reads the parts of a saved model in order, and checks each part.
class reader {
public:
  explicit reader(const fs::path& file)
    : file_name_{"\"" + file.string() + "\""} {
    std::error_code none;
    if (fs::is_directory(file, none))
      throw std::runtime_error(file_name_
                               + " is a directory; name a saved model");
    stream_.open(file, std::ios::binary);
    if (!stream_)
      throw std::runtime_error("cannot read " + file_name_ + ": "
                               + std::strerror(errno)
                               + "; name a file written by `save`");
    stream_.seekg(0, std::ios::end);
    size_ =
      static_cast<std::uint64_t>(std::max<std::streamoff>(stream_.tellg(), 0));
    stream_.seekg(0);
  }

  const std::string& file_name() const { return file_name_; }

  saved_header header() {
    std::array<char, front_bytes> front;
    if (size_ < magic.size())
      throw_error("is not a saved model");
    read(std::span{front}.first(magic.size()));
    if (std::string_view{front.data(), magic.size()} != magic)
      throw_error("is not a saved model");
    if (size_ < front_bytes + hash_bytes)
      throw_error("is truncated");
    read(std::span{front}.subspan(magic.size()));
    const auto version = get(front.data() + 8);
    if (version > saved_model_version)
      throw_error("has version " + std::to_string(version)
                  + " of the format, but this Troupe reads versions up to "
                  + std::to_string(saved_model_version)
                  + "; use a newer Troupe");
    const std::uint64_t length = get(front.data() + 12);
    if (version == 0 || length > max_header_bytes)
      throw_error("is damaged: its first bytes are invalid");
    if (length > size_ - front_bytes - hash_bytes)
      throw_error("is truncated");
    std::string text(length, '\0');
    read(std::span{text.data(), text.size()});
    elements_begin_ = front_bytes + length;
    return read_header(text, version, file_name_);
  }

  /// Throws if the size of the elements in the file is not exactly `bytes`.
  void expect(std::uint64_t bytes) const {
    const auto left = size_ - elements_begin_ - hash_bytes;
    if (left < bytes)
      throw_error("is truncated");
    if (left > bytes)
      throw_error("is damaged: it is longer than its header requires");
  }

  void read(std::span<char> to) {
    stream_.read(to.data(), static_cast<std::streamsize>(to.size()));
    if (static_cast<std::size_t>(stream_.gcount()) != to.size())
      throw_error("cannot be read completely");
    hash_.add(std::as_bytes(to));
  }

  /// Reads the elements after the first `read_bytes` bytes of them, and checks
  /// the hash.
  void check_elements(std::uint64_t read_bytes = 0) {
    std::vector<char> part(std::size_t{1} << 16);
    for (auto left = size_ - elements_begin_ - hash_bytes - read_bytes;
         left > 0;) {
      const auto count = std::min<std::uint64_t>(left, part.size());
      read({part.data(), static_cast<std::size_t>(count)});
      left -= count;
    }
    check_hash();
  }

  void check_hash() {
    const auto found = hash_.finish();
    sha256::value stored;
    stream_.read(reinterpret_cast<char*>(stored.data()), hash_bytes);
    if (!stream_ || stored != found)
      throw_error("is damaged: its checksum does not match; use another copy");
  }

  [[noreturn]] void throw_error(const std::string& why) const {
    throw std::runtime_error(file_name_ + " " + why);
  }

private:
  std::string file_name_;
  std::ifstream stream_;
  std::uint64_t size_ = 0, elements_begin_ = 0;
  sha256 hash_;
};

/// Returns the size of one flat buffer in the file, in bytes.
std::uint64_t payload_of(const models::network& net) {
  std::uint64_t elements = 0;
  for (const auto& one : net.parameters())
    elements += one.dims.elements();
  return elements * sizeof(float);
}

/// Checks that the file has elements for all tensors of its header.
void expect_elements(const reader& source, const saved_header& header,
                     const models::network& net, const update_rule& rule) {
  source.expect(payload_of(net)
                * (1 + rule.slots() + (header.best_weights ? 1 : 0)));
}

bool same_parameters(const std::vector<parameter_spec>& a,
                     const std::vector<parameter_spec>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.name == y.name && x.dims == y.dims;
  });
}

std::unique_ptr<model_state> load(reader& source,
                                  std::shared_ptr<strategy_state> target) {
  auto header = source.header();
  const models::network net{header.model};
  if (!same_parameters(net.parameters(), header.parameters))
    source.throw_error("is damaged: its parameters do not match its model");
  const update_rule rule{header.optimizer, header.optimizer_numbers};
  expect_elements(source, header, net, rule);
  auto state = std::make_unique<model_state>(
    header.model, rule, models::find_loss(header.loss), header.seed,
    std::move(target), header.precision);
  state->steps = header.steps;
  state->next_epoch = header.next_epoch;
  state->note = std::move(header.note);
  state->interrupted = std::move(header.fit);
  if (header.best_weights) {
    if (!state->interrupted)
      source.throw_error("is damaged: it contains best weights but no fit");
    state->interrupted->best_weights =
      tensor::zeros(state->model_parameters.values(0).dims(), dtype::float32,
                    state->model_parameters.values(0).device());
  }
  for (auto& flat : buffers(*state)) {
    const auto read = flat.to({});
    each_parameter(
      state->model_parameters, read, [&](std::span<std::byte> bytes) {
        source.read({reinterpret_cast<char*>(bytes.data()), bytes.size()});
      });
    if (!read.shares_storage_with(flat))
      flat.copy_from(read);
  }
  source.check_hash();
  state->broadcast_copy(0);
  return state;
}

} // namespace

namespace {

template <class F>
auto with_file_name(const reader& source, F fn) {
  try {
    return fn();
  } catch (const std::invalid_argument& e) {
    throw std::runtime_error("the model in " + source.file_name()
                             + " cannot be used: " + net::printable(e.what()));
  } catch (const std::logic_error& e) {
    throw std::runtime_error(source.file_name()
                             + " is damaged: " + net::printable(e.what()));
  }
}

} // namespace

std::unique_ptr<model_state>
load_model(const fs::path& file, std::shared_ptr<strategy_state> target) {
  reader source{file};
  return with_file_name(source,
                        [&] { return load(source, std::move(target)); });
}

std::vector<saved_weight> saved_weights(const fs::path& file) {
  reader source{file};
  return with_file_name(source, [&] {
    const auto header = source.header();
    const models::network net{header.model};
    if (!same_parameters(net.parameters(), header.parameters))
      source.throw_error("is damaged: its parameters do not match its model");
    expect_elements(source, header, net,
                    update_rule{header.optimizer, header.optimizer_numbers});
    std::vector<saved_weight> out;
    for (const auto& one : header.parameters) {
      tensor value{one.dims};
      const auto bytes = std::as_writable_bytes(value.mutable_data<float>());
      source.read({reinterpret_cast<char*>(bytes.data()), bytes.size()});
      out.push_back({one.name, std::move(value)});
    }
    source.check_elements(payload_of(net));
    return out;
  });
}

saved_header header_of(const fs::path& file) {
  reader source{file};
  return with_file_name(source, [&] { return source.header(); });
}

std::string saved_note(const fs::path& file) {
  return header_of(file).note;
}

namespace {

/// Position in its job at which a file was saved. Null: the file was not saved
/// by a job, is not regular (a pipe is not read), or does not exist.
/// @errors throws std::runtime_error if the header cannot be read.
std::optional<saved_position> position_of(const fs::path& file) {
  std::error_code none;
  return fs::is_regular_file(file, none) ? header_of(file).saved_at
                                         : std::nullopt;
}

/// Compares files of `--save`. Warns once if one cannot be read.
class saved_order {
public:
  /// True if `file` was saved by the same job at a later position than the file
  /// `than`, and is intact.
  bool operator()(const fs::path& file, const fs::path& than) {
    try {
      const auto found = position_of(file), other = position_of(than);
      if (!found || !other || !is_later(*found, *other))
        return false;
      reader source{file};
      with_file_name(source, [&] {
        source.header();
        source.check_elements();
      });
      return true;
    } catch (const std::runtime_error& e) {
      if (!std::exchange(has_warned_, true))
        log(log_level::warning,
            std::string{e.what()}
              + "; the model that this job saves replaces it");
      return false;
    }
  }

private:
  bool has_warned_ = false;
};

} // namespace

bool save_model(const model_state& state, const fs::path& file,
                const std::string& note) {
  try {
    check_finite_weights(state);
  } catch (const std::runtime_error& e) {
    throw std::runtime_error("\"" + file.string()
                             + "\" is not written: " + e.what());
  }
  const auto described = make_header(state, note);
  const auto header = write_header(described);
  std::string front{magic};
  put(front, version_of(described));
  put(front, static_cast<std::uint32_t>(header.size()));
  sha256 hash;
  atomic_file out{file};
  const auto write = [&](std::span<const std::byte> bytes) {
    hash.add(bytes);
    out.write(bytes);
  };
  write(std::as_bytes(std::span{front}));
  write(std::as_bytes(std::span{header}));
  for (const auto& flat : buffers(state))
    each_parameter(state.model_parameters, flat.to({}), write);
  out.write(hash.finish());
  // Another process of the job may save the file at any time.
  if (out.commit_unless(saved_order{}))
    return true;
  log(log_level::warning,
      "\"" + file.string()
        + "\" is kept: this job has saved it in a newer view, without this "
          "process");
  return false;
}

std::uint64_t saved_bytes(const models::model_description& net,
                          const update_rule& rule) {
  constexpr std::uint64_t header_estimate = std::uint64_t{64} << 10;
  return header_estimate
         + payload_of(models::network{net}) * (1 + rule.slots());
}

} // namespace troupe
