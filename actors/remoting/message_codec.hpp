#pragma once

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/codec/frame.hpp"
#include "troupe/strategies/fields.hpp"
#include "troupe/tensors/tensor.hpp"

#include <caf/actor_system.hpp>
#include <caf/atom.hpp>
#include <caf/replies_to.hpp>

#include <string>
#include <tuple>

// Encoding of a role's messages as payloads of frames (docs/wire.md).

namespace troupe::wire {

using troupe::inspect, troupe::serialize;

template <class T>
struct is_atom : std::false_type {};
template <caf::atom_value V>
struct is_atom<caf::atom_constant<V>> : std::true_type {};

template <class T>
concept carries_tensors = std::same_as<T, tensor> || std::same_as<T, tensors>;

/// A type whose values can be sent to another process. Handles and listeners
/// cannot; of a step function only the name is sent.
template <class T>
concept crosses = is_atom<T>::value || carries_tensors<T> || std::same_as<
  T, step_ref> || net::encodable<T>;

// -- values -------------------------------------------------------------------

/// Writes shape and dtype, then the elements in their memory layout.
void put_tensor(net::writer& to, const tensor& x);

/// Reads what `put_tensor` has written.
/// @errors fails the reader, before it allocates memory.
void get_tensor(net::reader& from, tensor& x);

/// Writes the number of tensors, then each tensor.
void put_tensors(net::writer& to, const tensors& xs);

/// Reads what `put_tensors` has written.
/// @errors fails the reader as `get_tensor`, and for more than 65,536 tensors.
void get_tensors(net::reader& from, tensors& xs);

/// Reads the name of a step function. The replica that runs it finds the
/// function in its `step_registry`.
/// @errors fails the reader if the name is empty.
void get_step(net::reader& from, step_ref& x);

template <crosses T>
void put(net::writer& to, const T& x) {
  if constexpr (std::same_as<T, tensor>)
    put_tensor(to, x);
  else if constexpr (std::same_as<T, tensors>)
    put_tensors(to, x);
  else if constexpr (std::same_as<T, step_ref>)
    to(x.name);
  else if constexpr (!is_atom<T>::value) // the signature contains the atom
    to(x);
}

template <crosses T>
void get(net::reader& from, T& x) {
  if constexpr (std::same_as<T, tensor>)
    get_tensor(from, x);
  else if constexpr (std::same_as<T, tensors>)
    get_tensors(from, x);
  else if constexpr (std::same_as<T, step_ref>)
    get_step(from, x);
  else if constexpr (!is_atom<T>::value)
    from(x);
}

// -- schemas ------------------------------------------------------------------

// The schema of a type is a text that is equal in two programs if they encode
// the type in the same way. It does not depend on the compiler's type names.

/// Appends the schema of `T`.
template <class T>
void describe(std::string& to);

template <class... Ts>
void describe_all(std::string& to, std::tuple<Ts&...>*) {
  (describe<Ts>(to), ...);
}

template <class T>
struct element_of {};
template <class T>
struct element_of<std::vector<T>> {
  using type = T;
};

template <class T>
void describe(std::string& to) {
  if constexpr (is_atom<T>::value)
    to += "'" + to_string(caf::atom_value{T{}}) + "'";
  else if constexpr (std::same_as<T, tensor>)
    to += "t";
  else if constexpr (std::same_as<T, tensors>)
    to += "[t]";
  else if constexpr (std::same_as<T, step_ref>)
    to += "n";
  else if constexpr (std::same_as<T, std::string>)
    to += "s";
  else if constexpr (std::same_as<T, bool>)
    to += "b";
  else if constexpr (std::is_enum_v<T>)
    to += "e" + std::to_string(sizeof(T));
  else if constexpr (std::is_floating_point_v<T>)
    to += "f" + std::to_string(sizeof(T));
  else if constexpr (std::is_integral_v<T>)
    to += (std::is_signed_v<T> ? "i" : "u") + std::to_string(sizeof(T));
  else if constexpr (requires { typename element_of<T>::type; }) {
    to += "[";
    describe<typename element_of<T>::type>(to);
    to += "]";
  } else {
    using fields = decltype(std::declval<T&>().fields());
    to += "(";
    describe_all(to, static_cast<fields*>(nullptr));
    to += ")";
  }
}

/// Fingerprint of a schema: its CRC-32C.
std::uint32_t number_of(const std::string& form);

// -- signatures ---------------------------------------------------------------

/// Name of a type that cannot be sent to another process. Empty: it can.
template <class T>
constexpr std::string_view name_if_local() {
  if constexpr (std::is_void_v<T> || crosses<T>)
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
  static constexpr bool is_fact = (std::is_void_v<Os> && ...);

  /// Name of the first type that cannot be sent to another process. Empty: all
  /// can.
  static constexpr std::string_view local() {
    std::string_view first;
    ((first = first.empty() ? name_if_local<Is>() : first), ...);
    ((first = first.empty() ? name_if_local<Os>() : first), ...);
    return first;
  }

  /// Schema of the message, and of its response after ">".
  static std::string text() {
    std::string text;
    (describe<Is>(text), ...);
    if constexpr (!is_fact) {
      text += ">";
      (describe<Os>(text), ...);
    }
    return text;
  }

  /// Fingerprint of that schema.
  static std::uint32_t form() { return number_of(text()); }
};

/// Priority of a message. Messages with tensors are sent after those without.
template <class... Ts>
constexpr net::priority priority_of = (carries_tensors<Ts> || ...)
                                        ? net::priority::bulk
                                        : net::priority::control;

/// Head of the payload of a oneway message or a request; the arguments follow.
struct message_head {
  std::uint16_t signature = 0; ///< Position of the signature in the interface.
  /// Fingerprint of that signature. It must be equal at both ends.
  std::uint32_t form = 0;
  /// Timeout of a request in milliseconds. Zero in a oneway message.
  std::uint32_t patience = 0;
  auto fields() { return std::tie(signature, form, patience); }
};

// -- errors -------------------------------------------------------------------

/// An error as it is sent to another process.
struct failure_note {
  ec code = ec::protocol;
  std::string text;
  auto fields() { return std::tie(code, text); }
};

/// Converts any error. CAF's request timeout becomes `stalled`, a terminated
/// receiver becomes `peer_lost`, and any other error without an `ec` becomes
/// `invalid`. The text is cut at 4,096 bytes.
failure_note note_of(const caf::error& x, caf::actor_system& sys);

/// Converts an error of another process. Its text is made printable.
caf::error error_of(const failure_note& x);

} // namespace troupe::wire
