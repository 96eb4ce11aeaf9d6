#pragma once

namespace troupe {

/// Tells the processor that the thread polls.
inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

} // namespace troupe
