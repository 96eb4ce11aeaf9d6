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

// What a role's messages are as the payload of a frame (docs/wire.md).

namespace troupe::wire {

using troupe::inspect, troupe::serialize;

template <class T>
struct is_atom : std::false_type {};
template <caf::atom_value V>
struct is_atom<caf::atom_constant<V>> : std::true_type {};

template <class T>
concept carries_tensors = std::same_as<T, tensor> || std::same_as<T, tensors>;

/// What may leave its process. Handles and listeners may not; of a step
/// function its name does.
template <class T>
concept crosses = is_atom<T>::value || carries_tensors<T> || std::same_as<
  T, step_ref> || net::encodable<T>;

// -- values -------------------------------------------------------------------

/// Shape and dtype, then the elements as they lie in memory.
void put_tensor(net::writer& to, const tensor& x);

/// @errors whatever is wrong fails the reader, before memory is taken.
void get_tensor(net::reader& from, tensor& x);

/// Their number, then each.
void put_tensors(net::writer& to, const tensors& xs);

/// @errors as get_tensor, and for more than 65,536.
void get_tensors(net::reader& from, tensors& xs);

/// Its name: whoever runs it looks in a step_book.
void get_step(net::reader& from, step_ref& x);

template <crosses T>
void put(net::writer& to, const T& x) {
  if constexpr (std::same_as<T, tensor>)
    put_tensor(to, x);
  else if constexpr (std::same_as<T, tensors>)
    put_tensors(to, x);
  else if constexpr (std::same_as<T, step_ref>)
    to(x.name);
  else if constexpr (!is_atom<T>::value) // an atom is part of the signature
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

// -- forms --------------------------------------------------------------------

// A text that two programs agree on if they mean the same bytes, whatever their
// compilers call the types.

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

/// CRC-32C of a form.
std::uint32_t number_of(const std::string& form);

// -- signatures ---------------------------------------------------------------

template <class T>
constexpr std::string_view name_if_local() {
  if constexpr (std::is_void_v<T> || crosses<T>)
    return {};
  else
    return net::type_name<T>();
}

/// One line of a role's interface.
template <class Sig>
struct signature;

template <class... Is, class... Os>
struct signature<
  caf::typed_mpi<caf::detail::type_list<Is...>, caf::output_tuple<Os...>>> {
  static_assert(sizeof...(Os) > 0, "an answer has at least one value");

  using inputs = std::tuple<Is...>;

  /// Nobody answers.
  static constexpr bool is_fact = (std::is_void_v<Os> && ...);

  /// The first type that cannot cross; empty: all can.
  static constexpr std::string_view local() {
    std::string_view first;
    ((first = first.empty() ? name_if_local<Is>() : first), ...);
    ((first = first.empty() ? name_if_local<Os>() : first), ...);
    return first;
  }

  static std::string text() {
    std::string text;
    (describe<Is>(text), ...);
    if constexpr (!is_fact) {
      text += ">";
      (describe<Os>(text), ...);
    }
    return text;
  }

  static std::uint32_t form() { return number_of(text()); }
};

/// What carries tensors waits behind what does not.
template <class... Ts>
constexpr net::priority priority_of = (carries_tensors<Ts> || ...)
                                        ? net::priority::bulk
                                        : net::priority::control;

/// How the payload of a fact or request begins; its arguments follow.
struct message_head {
  std::uint16_t signature = 0; ///< Position in the interface.
  std::uint32_t form = 0;      ///< Of that signature: both ends must agree.
  std::uint32_t patience = 0;  ///< Of a request, in ms.
  auto fields() { return std::tie(signature, form, patience); }
};

// -- errors -------------------------------------------------------------------

/// An error of any kind, as it travels.
struct failure_note {
  ec code = ec::protocol;
  std::string text;
  auto fields() { return std::tie(code, text); }
};

failure_note note_of(const caf::error& x, caf::actor_system& sys);

caf::error error_of(const failure_note& x);

} // namespace troupe::wire
