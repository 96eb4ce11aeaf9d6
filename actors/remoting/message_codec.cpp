#include "troupe/actors/remoting/message_codec.hpp"

#include "troupe/net/base/text.hpp"
#include "troupe/net/codec/crc32c.hpp"

#include <caf/sec.hpp>

#include <algorithm>
#include <array>

namespace troupe::wire {

namespace {

constexpr std::size_t longest_text = 4096;
constexpr std::uint64_t most_tensors = 65'536; ///< Limit for one list.

/// Reads the dimensions of a tensor. Nullopt if they are invalid.
std::optional<shape> get_shape(net::reader& from) {
  std::uint8_t rank = 0;
  from(rank);
  if (rank > shape::max_rank) {
    from.fail("a tensor of " + std::to_string(rank) + " axes");
    return {};
  }
  std::array<std::int64_t, shape::max_rank> extents{};
  for (std::size_t i = 0; i < rank; ++i)
    from(extents[i]);
  if (from.failed())
    return {};
  try {
    return shape{std::span{extents.data(), rank}};
  } catch (const std::logic_error& e) {
    from.fail(e.what());
    return {};
  }
}

} // namespace

void put_tensor(net::writer& to, const tensor& x) {
  to(static_cast<bool>(x));
  if (!x)
    return;
  to(static_cast<std::uint8_t>(x.type()),
     static_cast<std::uint8_t>(x.dims().rank()));
  for (const auto extent : x.dims())
    to(extent);
  to.reserve(x.bytes());
  to.raw({x.raw(), x.bytes()});
}

void get_tensor(net::reader& from, tensor& x) {
  x = {};
  bool present = false;
  std::uint8_t type = 0;
  from(present);
  if (!present)
    return;
  from(type);
  if (type >= dtype_count)
    return from.fail("a tensor of dtype " + std::to_string(type));
  const auto dims = get_shape(from);
  if (!dims)
    return;
  const tensor_spec spec{*dims, static_cast<dtype>(type)};
  if (dims->elements() > from.left() / size_of(spec.type))
    return from.fail(to_string(spec) + ", but " + std::to_string(from.left())
                     + " bytes are left");
  const auto bytes = from.raw(dims->elements() * size_of(spec.type), "tensor");
  if (spec.type == dtype::boolean
      && std::any_of(bytes.begin(), bytes.end(),
                     [](auto b) { return b > std::byte{1}; }))
    return from.fail("an element is neither true nor false");
  x = tensor{spec};
  std::copy(bytes.begin(), bytes.end(), x.raw());
}

void put_tensors(net::writer& to, const tensors& xs) {
  std::size_t bytes = 0;
  for (const auto& x : xs)
    bytes += x ? x.bytes() + 96 : 1; // 96: above the size of any head
  to(std::uint64_t{xs.size()});
  to.reserve(bytes);
  for (const auto& x : xs)
    put_tensor(to, x);
}

void get_tensors(net::reader& from, tensors& xs) {
  xs.clear();
  std::uint64_t count = 0;
  from(count);
  if (count > most_tensors || count > from.left())
    return from.fail("a list of " + std::to_string(count) + " tensors");
  for (; count > 0 && !from.failed(); --count)
    get_tensor(from, xs.emplace_back());
}

void get_step(net::reader& from, step_ref& x) {
  x = {};
  from(x.name);
  if (x.name.empty() && !from.failed())
    from.fail("a step function without a name");
}

std::uint32_t number_of(const std::string& form) {
  return net::crc32c(std::as_bytes(std::span{form}));
}

failure_note note_of(const caf::error& x, caf::actor_system& sys) {
  auto code = ec::invalid;
  std::string text;
  if (x.category() == caf::atom("troupe")) {
    code = static_cast<ec>(x.code());
    if (x.context().match_elements<std::string>())
      text = x.context().get_as<std::string>(0);
  } else if (x == caf::sec::request_timeout) {
    code = ec::stalled;
    text = "the role did not answer in time";
  } else if (x == caf::sec::request_receiver_down) {
    code = ec::peer_lost;
    text = "the role ended";
  }
  if (text.empty())
    text = sys.render(x);
  return {code, text.substr(0, longest_text)};
}

caf::error error_of(const failure_note& x) {
  return caf::make_error(x.code, net::printable_lines(x.text, longest_text));
}

} // namespace troupe::wire
