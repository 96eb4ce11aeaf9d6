#include "troupe/tensors/cuda/shared_library.hpp"

#include "troupe/tensors/base/device_error.hpp"

#include <dlfcn.h>

namespace troupe::cuda {

shared_library::shared_library(const char* name, const char* path,
                               const char* product)
  : product_{product}, handle_{::dlopen(name, RTLD_NOW | RTLD_LOCAL)} {
  if (handle_)
    return;
  const std::string reason = ::dlerror();
  handle_ = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle_)
    throw device_error{product_ + " was not found: " + reason + "; install "
                       + name + ", or add its folder to LD_LIBRARY_PATH"};
}

void* shared_library::address_of(const char* name) const {
  if (auto* const found = ::dlsym(handle_, name))
    return found;
  throw device_error{product_ + " has no function " + name
                     + "; install a newer one"};
}

} // namespace troupe::cuda
