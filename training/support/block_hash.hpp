#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe {

/// Returns a 64-bit hash of bytes. It detects faults of the hardware. A change
/// within one aligned 8-byte word always changes the hash, and any other change
/// with a probability of about 1 - 2^-64. It does not protect against
/// deliberate changes.
///
/// The bytes are cut into blocks of 32 KiB. In a block, word i of 8 bytes goes
/// to lane i mod 8. For each word a lane computes h = (h ^ word) * k and then
/// h ^= h >> 29. The hash is the sum of the mixed hashes of the blocks. So it
/// depends neither on the number of threads nor on the instruction set.
/// @param seed changes the hash of all bytes.
/// @cost one read of the bytes, divided among the threads of the calling
///       thread's ops; allocates no memory.
/// @source xorshift and multiplication as in MurmurHash64A (Appleby), with
///         several lanes as in XXH64 (Collet); k is that of Fibonacci hashing
///         (Knuth, TAOCP 6.4). Blocks are mixed by the finalizer of
///         MurmurHash3.
std::uint64_t block_hash(std::span<const std::byte> bytes, std::uint64_t seed);

} // namespace troupe
