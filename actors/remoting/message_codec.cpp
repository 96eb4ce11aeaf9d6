#include "troupe/actors/remoting/message_codec.hpp"

#include "troupe/net/base/text.hpp"
#include "troupe/net/codec/crc32c.hpp"

#include <caf/sec.hpp>

#include <algorithm>
#include <array>

namespace troupe::wire {

namespace {

constexpr std::size_t max_text_bytes = 4096;
constexpr std::uint64_t max_tensors = 65'536; ///< Maximum length of a list.

/// Reads the dimensions of a tensor. Returns nullopt if they are invalid.
std::optional<shape> get_shape(net::reader& in) {
  std::uint8_t rank = 0;
  in(rank);
  if (rank > shape::max_rank) {
    in.fail("a tensor of " + std::to_string(rank) + " axes");
    return {};
  }
  std::array<std::int64_t, shape::max_rank> extents{};
  for (std::size_t i = 0; i < rank; ++i)
    in(extents[i]);
  if (in.failed())
    return {};
  try {
    return shape{std::span{extents.data(), rank}};
  } catch (const std::logic_error& e) {
    in.fail(e.what());
    return {};
  }
}

/// Byte that stands for a tensor of the lane. An empty tensor begins with 0, a
/// tensor in the message with 1.
constexpr std::uint8_t lane_mark = 2;

/// Reads what follows the first byte of a tensor in the message.
void get_present_tensor(net::reader& in, tensor& value) {
  std::uint8_t type = 0;
  in(type);
  if (type >= dtype_count)
    return in.fail("a tensor of dtype " + std::to_string(type));
  const auto dims = get_shape(in);
  if (!dims)
    return;
  const tensor_spec spec{*dims, static_cast<dtype>(type)};
  if (dims->elements() > in.remaining() / size_of(spec.type))
    return in.fail(to_string(spec) + ", but " + std::to_string(in.remaining())
                   + " bytes are left");
  const auto bytes = in.raw(dims->elements() * size_of(spec.type), "tensor");
  if (spec.type == dtype::boolean
      && std::any_of(bytes.begin(), bytes.end(),
                     [](auto b) { return b > std::byte{1}; }))
    return in.fail("an element is neither true nor false");
  value = tensor{spec};
  std::copy(bytes.begin(), bytes.end(), value.raw());
}

bool is_inline(const net::writer&, const tensor&) {
  return true;
}
bool is_inline(const message_writer& out, const tensor& x) {
  return out.is_inline(x);
}

template <class Writer>
void put_list(Writer& out, const tensors& xs) {
  std::size_t bytes = 0;
  for (const auto& x : xs) // 96 bytes hold any shape and dtype
    bytes += x && is_inline(out, x) ? x.bytes() + 96 : 1;
  out(std::uint64_t{xs.size()});
  out.reserve(bytes);
  for (const auto& x : xs)
    put_tensor(out, x);
}

template <class Reader>
void get_list(Reader& in, tensors& xs) {
  xs.clear();
  std::uint64_t count = 0;
  in(count);
  if (count > max_tensors || count > in.remaining())
    return in.fail("a list of " + std::to_string(count) + " tensors");
  for (; count > 0 && !in.failed(); --count)
    get_tensor(in, xs.emplace_back());
}

} // namespace

// -- writing and reading ------------------------------------------------------

bool message_writer::is_inline(const tensor& value) const {
  return !uses_lane_ || !value || value.bytes() <= max_inline_tensor_bytes;
}

void message_writer::put_mark(const tensor& value) {
  (*this)(lane_mark);
  lane_tensors_.push_back(value);
}

tensor message_reader::take_lane_tensor() {
  if (taken_ < lane_tensors_.size())
    return std::move(lane_tensors_[taken_++]);
  fail("a mark of tensor " + std::to_string(taken_) + " of the lane, but "
       + std::to_string(lane_tensors_.size())
       + " tensors belong to the message");
  return {};
}

std::optional<net::decode_error> message_reader::finish() {
  if (!failed() && taken_ < lane_tensors_.size())
    fail("marks of " + std::to_string(taken_) + " tensors of the lane, but "
         + std::to_string(lane_tensors_.size())
         + " tensors belong to the message");
  return net::reader::finish();
}

// -- values -------------------------------------------------------------------

void put_tensor(net::writer& out, const tensor& value) {
  out(static_cast<bool>(value));
  if (!value)
    return;
  out(static_cast<std::uint8_t>(value.type()),
      static_cast<std::uint8_t>(value.dims().rank()));
  for (const auto extent : value.dims())
    out(extent);
  out.reserve(value.bytes());
  out.raw({value.raw(), value.bytes()});
}

void put_tensor(message_writer& out, const tensor& value) {
  if (out.is_inline(value))
    put_tensor(static_cast<net::writer&>(out), value);
  else
    out.put_mark(value);
}

void get_tensor(net::reader& in, tensor& value) {
  value = {};
  bool present = false;
  in(present);
  if (present)
    get_present_tensor(in, value);
}

void get_tensor(message_reader& in, tensor& value) {
  value = {};
  std::uint8_t mark = 0;
  in(mark);
  if (mark == lane_mark)
    value = in.take_lane_tensor();
  else if (mark == 1)
    get_present_tensor(in, value);
  else if (mark > lane_mark)
    in.fail("a tensor with the mark " + std::to_string(mark));
}

void put_tensors(net::writer& out, const tensors& xs) {
  put_list(out, xs);
}
void put_tensors(message_writer& out, const tensors& xs) {
  put_list(out, xs);
}

void get_tensors(net::reader& in, tensors& xs) {
  get_list(in, xs);
}
void get_tensors(message_reader& in, tensors& xs) {
  get_list(in, xs);
}

void get_step(net::reader& in, step_function_ref& step) {
  step = {};
  in(step.name);
  if (step.name.empty() && !in.failed())
    in.fail("a step function without a name");
}

std::uint32_t fingerprint_of(const std::string& schema) {
  return net::crc32c(std::as_bytes(std::span{schema}));
}

wire_error to_wire(const caf::error& error, caf::actor_system& sys) {
  auto code = ec::invalid;
  std::string text;
  if (error.category() == caf::atom("troupe")) {
    code = static_cast<ec>(error.code());
    if (error.context().match_elements<std::string>())
      text = error.context().get_as<std::string>(0);
  } else if (error == caf::sec::request_timeout) {
    code = ec::stalled;
    text = "the role did not answer in time";
  } else if (error == caf::sec::request_receiver_down) {
    code = ec::peer_lost;
    text = "the role ended";
  }
  if (text.empty())
    text = sys.render(error);
  return {code, text.substr(0, max_text_bytes)};
}

caf::error from_wire(const wire_error& error) {
  return caf::make_error(error.code,
                         net::printable_lines(error.text, max_text_bytes));
}

} // namespace troupe::wire
