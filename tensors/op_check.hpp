#pragma once

#include "troupe/tensors/op.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Checks an op on each of its cases, with inputs drawn from a fixed seed:
/// - the shape rule throws no exception, and the float64 gradient agrees with
///   central differences of the float64 reference;
/// - the kernels of the CPU for other dtypes agree with the reference, within
///   the bound of the case;
/// - the backward kernels add to an existing gradient if `accumulates` says so,
///   and compute each gradient also if the others are not requested;
/// - sparse gradients are equal to the dense ones;
/// - the results have the same bits if the inputs are not aligned.
/// The op need not be registered. Call this function in a test of the program
/// that defines the op.
/// @returns one sentence for each failure, with the case, the input and the
///          element. Empty: the op passed.
/// @cost two runs of the reference for at most 24 elements of each input, for
///       each case.
std::vector<std::string> check_op(const op& definition);

/// Checks the kernels of a device in the same way: those for all dtypes agree
/// with the reference on the CPU.
std::vector<std::string> check_op(const op& definition, const device& on);

} // namespace troupe
