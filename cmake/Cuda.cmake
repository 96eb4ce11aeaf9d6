# CUDA with cuBLASLt, cuDNN and NCCL. TROUPE_CUDA=AUTO builds for CUDA devices if the
# toolkit, its compiler and these libraries are found; ON makes it an error if one is
# missing. Programs start without a driver and without the libraries: the CUDA runtime is
# linked statically and opens the driver at its first call, and each library is opened
# at its first use.
set(TROUPE_CUDA AUTO CACHE STRING "Build for CUDA devices: AUTO, ON or OFF")
set_property(CACHE TROUPE_CUDA PROPERTY STRINGS AUTO ON OFF)
# Machine code for these devices, and PTX of the last for later ones.
set(TROUPE_CUDA_ARCHITECTURES "80-real;90-real;100" CACHE STRING
  "Architectures of CUDA devices, as for CMAKE_CUDA_ARCHITECTURES")

set(TROUPE_HAS_CUDA OFF)
if(TROUPE_CUDA)
  find_package(CUDAToolkit 12.8 QUIET) # the first for architecture 100
  if(CUDAToolkit_FOUND)
    # troupe_find_cuda(<product> <header> <library>)
    macro(troupe_find_cuda product header library)
      find_path(TROUPE_${product}_INCLUDE ${header} HINTS ${CUDAToolkit_INCLUDE_DIRS})
      find_library(TROUPE_${product}_LIBRARY ${library}
        HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT} PATH_SUFFIXES lib lib64)
    endmacro()
    troupe_find_cuda(CUBLASLT cublasLt.h cublasLt)
    troupe_find_cuda(CUDNN cudnn_graph.h cudnn)
    troupe_find_cuda(NCCL nccl.h nccl)
    if(NOT CMAKE_CUDA_COMPILER)
      set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
    endif()
  endif()
  set(missing "")
  if(NOT CUDAToolkit_FOUND)
    set(missing "the CUDA toolkit 12.8 or newer; install it, or set CUDAToolkit_ROOT to its folder")
  elseif(NOT CMAKE_CUDA_COMPILER)
    set(missing "nvcc in ${CUDAToolkit_BIN_DIR}; install the compiler of the toolkit")
  elseif(NOT TROUPE_CUBLASLT_INCLUDE OR NOT TROUPE_CUBLASLT_LIBRARY)
    set(missing "cuBLASLt (cublasLt.h and libcublasLt); install libcublas-dev, or set \
TROUPE_CUBLASLT_INCLUDE and TROUPE_CUBLASLT_LIBRARY")
  elseif(NOT TROUPE_CUDNN_INCLUDE OR NOT TROUPE_CUDNN_LIBRARY)
    set(missing "cuDNN 9 (cudnn_graph.h and libcudnn); install libcudnn9-dev-cuda-13, or set \
TROUPE_CUDNN_INCLUDE and TROUPE_CUDNN_LIBRARY")
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
  # troupe_cuda_folder(<folder> <subfolder> <user> <library>...): adds the sources of
  # a subfolder to a folder. The user is the source outside that includes its headers,
  # the libraries are those that it opens.
  function(troupe_cuda_folder folder subfolder user)
    file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${subfolder}/*.cu)
    add_library(troupe_${folder}_cuda OBJECT ${kernels})
    # As on the CPU: no contraction, and denormals of float32 are flushed to zero.
    # CMake 3.25 knows no flag of this compiler for C++20.
    target_compile_options(troupe_${folder}_cuda PRIVATE -std=c++20 -fmad=false -ftz=true
      --extended-lambda --expt-relaxed-constexpr)
    target_include_directories(troupe_${folder}_cuda PRIVATE ${troupe_include})
    set_target_properties(troupe_${folder}_cuda PROPERTIES
      CUDA_ARCHITECTURES "${TROUPE_CUDA_ARCHITECTURES}" CUDA_RUNTIME_LIBRARY Static
      CUDA_STANDARD 20 CUDA_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${subfolder}/*.cpp)
    target_sources(troupe_${folder} PRIVATE
      ${sources} $<TARGET_OBJECTS:troupe_${folder}_cuda>)
    target_link_libraries(troupe_${folder} PRIVATE $<LINK_ONLY:CUDA::cudart_static>)
    # Only these sources need CUDA. The objects of all others are equal with and
    # without, so a compiler cache can reuse them.
    set(definitions TROUPE_HAS_CUDA)
    set(includes ${CUDAToolkit_INCLUDE_DIRS})
    foreach(product ${ARGN})
      list(APPEND definitions TROUPE_${product}_LIBRARY="${TROUPE_${product}_LIBRARY}")
      list(APPEND includes ${TROUPE_${product}_INCLUDE})
    endforeach()
    list(REMOVE_DUPLICATES includes)
    # -isystem/usr/include would hide headers that the standard library includes.
    list(REMOVE_ITEM includes ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
    list(TRANSFORM includes PREPEND -isystem)
    list(TRANSFORM user PREPEND ${PROJECT_SOURCE_DIR}/)
    set_property(SOURCE ${sources} ${user} APPEND PROPERTY COMPILE_DEFINITIONS ${definitions})
    set_property(SOURCE ${sources} ${user} APPEND PROPERTY COMPILE_OPTIONS ${includes})
  endfunction()
  troupe_cuda_folder(tensors tensors/cuda tensors/device_backend.cpp CUBLASLT CUDNN)
  troupe_cuda_folder(actors actors/collectives/nccl/cuda
                     actors/collectives/nccl/nccl_device.cpp NCCL)
endif()
