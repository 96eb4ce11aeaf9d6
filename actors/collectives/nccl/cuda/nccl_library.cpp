#include "troupe/actors/collectives/nccl/cuda/nccl_library.hpp"

#include "troupe/actors/collectives/nccl/device_communicator.hpp"

#include <dlfcn.h>
#include <string>

namespace troupe::cuda {

namespace {

/// Opens the library. If the loader does not find it, opens the file that was
/// found when Troupe was configured.
void* open_library() {
  if (auto* library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL))
    return library;
  const std::string reason = ::dlerror();
  if (auto* library = ::dlopen(TROUPE_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL))
    return library;
  throw device_error{"NCCL was not found: " + reason
                     + "; install libnccl2, or add its folder to "
                       "LD_LIBRARY_PATH"};
}

template <class F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  if (!function)
    throw device_error{"the NCCL library has no function " + std::string{name}
                       + "; install NCCL 2.28 or newer"};
}

std::string version_text(int code) {
  return std::to_string(code / 10'000) + "." + std::to_string(code / 100 % 100)
         + "." + std::to_string(code % 100);
}

nccl_library load() {
  auto* library = open_library();
  nccl_library out{};
  find(library, "ncclGetVersion", out.get_version);
  find(library, "ncclGetErrorString", out.get_error_string);
  find(library, "ncclGetLastError", out.get_last_error);
  find(library, "ncclGetUniqueId", out.get_unique_id);
  find(library, "ncclCommInitRankConfig", out.comm_init_rank_config);
  find(library, "ncclCommGetAsyncError", out.comm_get_async_error);
  find(library, "ncclCommFinalize", out.comm_finalize);
  find(library, "ncclCommAbort", out.comm_abort);
  find(library, "ncclCommDestroy", out.comm_destroy);
  find(library, "ncclGroupStart", out.group_start);
  find(library, "ncclGroupEnd", out.group_end);
  find(library, "ncclAllReduce", out.all_reduce);
  find(library, "ncclSend", out.send);
  find(library, "ncclRecv", out.recv);
  int version = 0;
  if (out.get_version(&version) != ncclSuccess || version < NCCL_VERSION_CODE)
    throw device_error{"the NCCL library has version " + version_text(version)
                       + ", but Troupe was built with "
                       + version_text(NCCL_VERSION_CODE)
                       + "; install that version or a newer one"};
  return out;
}

} // namespace

const nccl_library& nccl() {
  static const nccl_library functions = load();
  return functions;
}

} // namespace troupe::cuda
