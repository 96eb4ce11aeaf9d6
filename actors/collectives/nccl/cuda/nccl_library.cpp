#include "troupe/actors/collectives/nccl/cuda/nccl_library.hpp"

#include "troupe/actors/collectives/nccl/communicator/device_communicator.hpp"
#include "troupe/tensors/cuda/shared_library.hpp"

#include <string>

namespace troupe::cuda {

namespace {

nccl_library load() {
  const shared_library library{"libnccl.so.2", TROUPE_NCCL_LIBRARY, "NCCL"};
  nccl_library out{};
  library.find("ncclGetVersion", out.get_version);
  library.find("ncclGetErrorString", out.get_error_string);
  library.find("ncclGetLastError", out.get_last_error);
  library.find("ncclGetUniqueId", out.get_unique_id);
  library.find("ncclCommInitRankConfig", out.comm_init_rank_config);
  library.find("ncclCommGetAsyncError", out.comm_get_async_error);
  library.find("ncclCommFinalize", out.comm_finalize);
  library.find("ncclCommAbort", out.comm_abort);
  library.find("ncclCommDestroy", out.comm_destroy);
  library.find("ncclGroupStart", out.group_start);
  library.find("ncclGroupEnd", out.group_end);
  library.find("ncclAllReduce", out.all_reduce);
  library.find("ncclSend", out.send);
  library.find("ncclRecv", out.recv);
  int version = 0;
  if (out.get_version(&version) != ncclSuccess || version < NCCL_VERSION_CODE)
    throw device_error{
      "the NCCL library has version " + nccl_version_text(version)
      + ", but Troupe was built with " + nccl_version_text(NCCL_VERSION_CODE)
      + "; install that version or a newer one"};
  return out;
}

} // namespace

std::string nccl_version_text(int code) {
  return std::to_string(code / 10'000) + "." + std::to_string(code / 100 % 100)
         + "." + std::to_string(code % 100);
}

const nccl_library& nccl() {
  static const nccl_library functions = load();
  return functions;
}

} // namespace troupe::cuda
