#pragma once

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/codec/frame.hpp"
#include "troupe/strategies/fields.hpp"
#include "troupe/tensors/tensor.hpp"

#include <caf/actor_system.hpp>
#include <caf/atom.hpp>
#include <caf/message.hpp>
#include <caf/message_builder.hpp>
#include <caf/replies_to.hpp>

#include <concepts>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>

// Encoding of a role's messages as payloads of frames (docs/wire.md).

namespace troupe::wire {

template <class T>
struct is_atom : std::false_type {};
template <caf::atom_value V>
struct is_atom<caf::atom_constant<V>> : std::true_type {};

template <class T>
concept carries_tensors = std::same_as<T, tensor> || std::same_as<T, tensors>;

/// A type whose values can be sent to another process. Actor handles and
/// listeners cannot be sent. Of a step function, only the name is sent.
template <class T>
concept is_serializable = is_atom<T>::value || carries_tensors<
  T> || std::same_as<T, step_function_ref> || net::encodable<T>;

// -- writing and reading ------------------------------------------------------

/// Size in bytes above which a tensor leaves its message for the lane of the
/// connection, if the connection has one.
inline constexpr std::size_t max_inline_tensor_bytes = std::size_t{64} * 1024;

/// Writes a message. If the connection has a lane, a tensor of more than
/// `max_inline_tensor_bytes` becomes a mark in the message. The writer keeps
/// the tensor for the lane.
class message_writer : public net::writer {
public:
  explicit message_writer(bool uses_lane = false) : uses_lane_{uses_lane} {}

  /// True if the elements of this tensor are written into the message.
  bool is_inline(const tensor& value) const;
  /// Writes a mark in place of a tensor, and keeps the tensor for the lane.
  void put_mark(const tensor& value);

  /// Returns the tensors for the lane, in the order of their marks.
  tensors take_lane_tensors() && { return std::move(lane_tensors_); }

private:
  bool uses_lane_;
  tensors lane_tensors_;
};

/// Reads a message and puts the tensors of the lane in place of their marks.
class message_reader : public net::reader {
public:
  /// @pre the bytes outlive the reader.
  explicit message_reader(std::span<const std::byte> bytes,
                          tensors lane_tensors = {})
    : net::reader{bytes}, lane_tensors_{std::move(lane_tensors)} {}

  /// Returns the tensor of the next mark. If no tensor is left, it sets an
  /// error and returns an empty tensor.
  tensor take_lane_tensor();

  /// Sets an error if bytes or tensors of the lane are left, and returns the
  /// first error of this reader.
  std::optional<net::decode_error> finish();

private:
  tensors lane_tensors_;
  std::size_t taken_ = 0; ///< Number of the tensors that were taken.
};

// -- values -------------------------------------------------------------------

/// Writes shape and dtype, then the elements in their memory layout.
void put_tensor(net::writer& out, const tensor& value);
void put_tensor(message_writer& out, const tensor& value);

/// Reads what `put_tensor` has written.
/// @errors sets an error in the reader if the tensor is malformed. No memory is
///         allocated before this check.
void get_tensor(net::reader& in, tensor& value);
void get_tensor(message_reader& in, tensor& value);

/// Writes the number of tensors, then each tensor.
void put_tensors(net::writer& out, const tensors& xs);
void put_tensors(message_writer& out, const tensors& xs);

/// Reads what `put_tensors` has written.
/// @errors sets an error in the reader if a tensor is malformed, or if there
///         are more than 65,536 tensors.
void get_tensors(net::reader& in, tensors& xs);
void get_tensors(message_reader& in, tensors& xs);

/// Reads the name of a step function. The replica that runs it finds the
/// function in its `step_registry`.
/// @errors sets an error in the reader if the name is empty.
void get_step(net::reader& in, step_function_ref& step);

template <std::derived_from<net::writer> Writer, is_serializable T>
void put(Writer& out, const T& value) {
  if constexpr (std::same_as<T, tensor>)
    put_tensor(out, value);
  else if constexpr (std::same_as<T, tensors>)
    put_tensors(out, value);
  else if constexpr (std::same_as<T, step_function_ref>)
    out(value.name);
  else if constexpr (!is_atom<T>::value) // an atom is in the schema only
    out(value);
}

template <std::derived_from<net::reader> Reader, is_serializable T>
void get(Reader& in, T& value) {
  if constexpr (std::same_as<T, tensor>)
    get_tensor(in, value);
  else if constexpr (std::same_as<T, tensors>)
    get_tensors(in, value);
  else if constexpr (std::same_as<T, step_function_ref>)
    get_step(in, value);
  else if constexpr (!is_atom<T>::value)
    in(value);
}

template <is_serializable T>
void append_value(caf::message_builder& out, message_reader& in) {
  T value{};
  get(in, value);
  out.append(std::move(value));
}

/// Reads a message of these types. The caller calls `in.finish()` and discards
/// the message if that returns an error.
template <is_serializable... Ts>
caf::message read_message(message_reader& in) {
  caf::message_builder out;
  (append_value<Ts>(out, in), ...);
  return out.move_to_message();
}

// -- schemas ------------------------------------------------------------------

// The schema of a type is a text. Two programs have equal schemas for a type if
// they encode the type in the same way. Type names of the compiler do not occur
// in a schema.

/// Appends the schema of `T`.
template <class T>
void append_schema(std::string& schema);

template <class... Ts>
void append_schemas(std::string& schema, std::tuple<Ts&...>*) {
  (append_schema<Ts>(schema), ...);
}

template <class T>
struct element_of {};
template <class T>
struct element_of<std::vector<T>> {
  using type = T;
};

template <class T>
struct is_variant : std::false_type {};
template <class... Ts>
struct is_variant<std::variant<Ts...>> : std::true_type {
  using alternatives = std::tuple<Ts&...>;
};

template <class T>
void append_schema(std::string& schema) {
  if constexpr (is_atom<T>::value)
    schema += "'" + to_string(caf::atom_value{T{}}) + "'";
  else if constexpr (std::same_as<T, tensor>)
    schema += "t";
  else if constexpr (std::same_as<T, tensors>)
    schema += "[t]";
  else if constexpr (std::same_as<T, step_function_ref>)
    schema += "n";
  else if constexpr (std::same_as<T, std::string>)
    schema += "s";
  else if constexpr (std::same_as<T, bool>)
    schema += "b";
  else if constexpr (std::is_enum_v<T>)
    schema += "e" + std::to_string(sizeof(T));
  else if constexpr (std::is_floating_point_v<T>)
    schema += "f" + std::to_string(sizeof(T));
  else if constexpr (std::is_integral_v<T>)
    schema += (std::is_signed_v<T> ? "i" : "u") + std::to_string(sizeof(T));
  else if constexpr (requires { typename element_of<T>::type; }) {
    schema += "[";
    append_schema<typename element_of<T>::type>(schema);
    schema += "]";
  } else if constexpr (is_variant<T>::value) {
    using alternatives = typename is_variant<T>::alternatives;
    schema += "{";
    append_schemas(schema, static_cast<alternatives*>(nullptr));
    schema += "}";
  } else {
    using fields = decltype(std::declval<T&>().fields());
    schema += "(";
    append_schemas(schema, static_cast<fields*>(nullptr));
    schema += ")";
  }
}

/// Fingerprint of a schema: its CRC-32C.
std::uint32_t fingerprint_of(const std::string& schema);

// -- signatures ---------------------------------------------------------------

/// Returns the name of a type that cannot be sent to another process. Empty:
/// the type can be sent.
template <class T>
constexpr std::string_view name_if_nonserializable() {
  if constexpr (std::is_void_v<T> || is_serializable<T>)
    return {};
  else
    return net::type_name<T>();
}

/// One message of a role's interface, with its response.
template <class Sig>
struct signature;

template <class... Is, class... Os>
struct signature<
  caf::typed_mpi<caf::detail::type_list<Is...>, caf::output_tuple<Os...>>> {
  static_assert(sizeof...(Os) > 0, "a response has at least one value");

  using inputs = std::tuple<Is...>;

  /// True if the message has no response.
  static constexpr bool is_oneway = (std::is_void_v<Os> && ...);

  /// Returns the name of the first type that cannot be sent to another process.
  /// Empty: all types can be sent.
  static constexpr std::string_view nonserializable_type() {
    std::string_view first;
    ((first = first.empty() ? name_if_nonserializable<Is>() : first), ...);
    ((first = first.empty() ? name_if_nonserializable<Os>() : first), ...);
    return first;
  }

  /// Returns the schema of the message. For a request, ">" and the schema of
  /// the response follow.
  static std::string schema() {
    std::string text;
    (append_schema<Is>(text), ...);
    if constexpr (!is_oneway) {
      text += ">";
      (append_schema<Os>(text), ...);
    }
    return text;
  }

  /// Returns the fingerprint of the schema.
  static std::uint32_t fingerprint() { return fingerprint_of(schema()); }
};

/// Returns the name of a message for errors and the log: its atoms in quotes
/// and the names of its other types.
template <class... Ts>
std::string message_name() {
  std::string text;
  const auto append = [&text]<class T>(std::type_identity<T>) {
    text += text.empty() ? "" : ", ";
    if constexpr (is_atom<T>::value)
      append_schema<T>(text);
    else
      text += net::type_name<T>();
  };
  (append(std::type_identity<Ts>{}), ...);
  return text;
}

/// Priority of a message with values of these types. Messages with tensors are
/// sent after messages without tensors.
template <class... Ts>
constexpr net::priority priority_of = (carries_tensors<Ts> || ...)
                                        ? net::priority::bulk
                                        : net::priority::control;

/// The first part of the payload of a oneway message or a request. The encoded
/// arguments follow.
struct message_head {
  std::uint16_t signature = 0; ///< Position of the message in the interface.
  /// Fingerprint of the message's schema. It must be equal at both ends.
  std::uint32_t fingerprint = 0;
  /// Timeout of a request in milliseconds. Zero in a oneway message.
  std::uint32_t timeout_ms = 0;
  auto fields() { return std::tie(signature, fingerprint, timeout_ms); }
};

// -- errors -------------------------------------------------------------------

/// An error in the form in which it is sent to another process.
struct wire_error {
  ec code = ec::protocol;
  std::string text;
  auto fields() { return std::tie(code, text); }
};

/// Converts any error. CAF's request timeout becomes `stalled`, a terminated
/// receiver becomes `peer_lost`, and any other error without an `ec` becomes
/// `invalid`. The text is cut at 4,096 bytes.
wire_error to_wire(const caf::error& error, caf::actor_system& sys);

/// Converts an error of another process. Its text is made printable.
caf::error from_wire(const wire_error& error);

} // namespace troupe::wire
