# CUDA and NCCL. TROUPE_CUDA=AUTO builds for CUDA devices if the toolkit, its compiler
# and NCCL are found; ON makes it an error if one is missing. Programs start without a
# driver and without NCCL: the CUDA runtime is linked statically and opens the driver
# at its first call, and NCCL is opened at its first use.
set(TROUPE_CUDA AUTO CACHE STRING "Build for CUDA devices: AUTO, ON or OFF")
set_property(CACHE TROUPE_CUDA PROPERTY STRINGS AUTO ON OFF)
# Machine code for these devices, and PTX of the last for later ones.
set(TROUPE_CUDA_ARCHITECTURES "80-real;90-real;100" CACHE STRING
  "Architectures of CUDA devices, as for CMAKE_CUDA_ARCHITECTURES")

set(TROUPE_HAS_CUDA OFF)
if(TROUPE_CUDA)
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND)
    find_path(TROUPE_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_library(TROUPE_NCCL_LIBRARY nccl
      HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT} PATH_SUFFIXES lib lib64)
    if(NOT CMAKE_CUDA_COMPILER)
      set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
    endif()
  endif()
  set(missing "")
  if(NOT CUDAToolkit_FOUND)
    set(missing "the CUDA toolkit; install it, or set CUDAToolkit_ROOT to its folder")
  elseif(NOT CMAKE_CUDA_COMPILER)
    set(missing "nvcc in ${CUDAToolkit_BIN_DIR}; install the compiler of the toolkit")
  elseif(NOT TROUPE_NCCL_INCLUDE OR NOT TROUPE_NCCL_LIBRARY)
    set(missing "NCCL (nccl.h and libnccl); install libnccl-dev, or set \
TROUPE_NCCL_INCLUDE and TROUPE_NCCL_LIBRARY")
  endif()
  if(NOT missing)
    set(TROUPE_HAS_CUDA ON)
  elseif(NOT TROUPE_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "TROUPE_CUDA is ${TROUPE_CUDA}, but CMake did not find ${missing}.")
  endif()
endif()
message(STATUS "CUDA devices: ${TROUPE_HAS_CUDA}")

if(TROUPE_HAS_CUDA)
  enable_language(CUDA)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/actors/*.cu)
  add_library(troupe_cuda_kernels OBJECT ${kernels})
  # As on the CPU: no contraction, and denormals of float32 are flushed to zero.
  target_compile_options(troupe_cuda_kernels PRIVATE -fmad=false -ftz=true)
  target_include_directories(troupe_cuda_kernels PRIVATE ${troupe_include})
  set_target_properties(troupe_cuda_kernels PROPERTIES
    CUDA_ARCHITECTURES "${TROUPE_CUDA_ARCHITECTURES}" CUDA_RUNTIME_LIBRARY Static
    CUDA_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)

  file(GLOB sources CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/actors/collectives/nccl/cuda/*.cpp)
  target_sources(troupe_actors PRIVATE ${sources} $<TARGET_OBJECTS:troupe_cuda_kernels>)
  target_compile_definitions(troupe_actors PRIVATE TROUPE_HAS_CUDA
    TROUPE_NCCL_LIBRARY="${TROUPE_NCCL_LIBRARY}")
  target_include_directories(troupe_actors SYSTEM PRIVATE ${TROUPE_NCCL_INCLUDE})
  target_link_libraries(troupe_actors PRIVATE CUDA::cudart_static)
endif()
