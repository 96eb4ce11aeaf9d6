#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe {

/// Returns a 64-bit hash of bytes. It detects faults of the hardware: a change
/// within one aligned 8-byte word always changes the hash, and any other change
/// does with a probability of about 1 - 2^-64. It does not protect against
/// deliberate changes.
///
/// The bytes are cut into blocks of 32 KiB. In a block, word i of 8 bytes goes
/// to lane i mod 8, and each lane is h = (rotl(h, 5) ^ word) * k. The hash is
/// the sum of the mixed hashes of the blocks. So it depends neither on the
/// number of threads nor on the instruction set.
/// @param seed changes the hash of all bytes.
/// @cost one read of the bytes, divided among the threads of the calling
///       thread's ops; allocates no memory.
/// @source the step of a lane is that of FxHash (Firefox, rustc-hash 1.1); the
///         mixing function is the finalizer of MurmurHash3 (Appleby).
std::uint64_t block_hash(std::span<const std::byte> bytes, std::uint64_t seed);

} // namespace troupe
