#pragma once

#include <cstdint>

// Encoding of a tensor's trace in 64 bits. A trace is the number by which a
// tape finds the value of a tensor. The trace of a variable is its id with the
// top bit set. The trace of a value of a tape has the tape's serial number in
// the upper half, and the index + 1 in the lower half.

namespace troupe::tape_ids {

inline constexpr std::uint64_t variable_bit = std::uint64_t{1} << 63;

constexpr std::uint64_t of_variable(std::uint32_t id) {
  return variable_bit | id;
}

constexpr std::uint64_t of_value(std::uint32_t serial, std::uint32_t index) {
  return std::uint64_t{serial} << 32 | (index + 1);
}

constexpr bool is_variable(std::uint64_t x) {
  return (x & variable_bit) != 0;
}

constexpr bool is_value_of(std::uint64_t x, std::uint32_t serial) {
  return !is_variable(x) && x >> 32 == serial;
}

/// @pre `x` is a value of a tape.
constexpr std::uint32_t serial_of(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}

constexpr std::uint32_t low(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}

} // namespace troupe::tape_ids
