#pragma once

#include <nccl.h>
#include <string>

namespace troupe::cuda {

/// The functions of NCCL that Troupe calls. The library is opened at the first
/// use. So programs also start on machines without NCCL, and load its 200 MiB
/// only if they use it.
struct nccl_library {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclCommFinalize) comm_finalize;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
};

/// Returns the functions of NCCL.
/// @errors throws device_error if the library is missing, lacks a function, or
///         is older than the header that Troupe was compiled with.
const nccl_library& nccl();

/// Formats a version of NCCL as "2.28.3".
std::string nccl_version_text(int code);

} // namespace troupe::cuda
