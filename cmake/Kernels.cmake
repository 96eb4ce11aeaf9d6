# tensors/kernels/*.cpp contain the innermost loops. Each file is compiled once
# per instruction-set level, into a namespace of that level. At run time, kernels()
# chooses the highest level that the processor supports (tensors/base/kernels.hpp). These
# files do not include Eigen: the linker keeps one copy of each inline function,
# perhaps that of a level that the processor does not support.
file(GLOB kernel_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tensors/kernels/*.cpp)

function(troupe_kernel_level level)
  add_library(troupe_kernels_${level} OBJECT ${kernel_sources})
  target_compile_features(troupe_kernels_${level} PRIVATE cxx_std_20)
  target_include_directories(troupe_kernels_${level} PRIVATE ${troupe_include})
  target_compile_definitions(troupe_kernels_${level} PRIVATE TROUPE_LEVEL=${level})
  target_compile_options(troupe_kernels_${level} PRIVATE -O3 -fno-math-errno -fno-trapping-math ${ARGN})
  target_link_libraries(troupe_kernels_${level} PRIVATE troupe_flags)
  set_target_properties(troupe_kernels_${level} PROPERTIES
    CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
  target_sources(troupe_tensors PRIVATE $<TARGET_OBJECTS:troupe_kernels_${level}>)
endfunction()

troupe_kernel_level(baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  troupe_kernel_level(v3 -march=x86-64-v3)
  troupe_kernel_level(v4 -march=x86-64-v4 -mprefer-vector-width=512)
  target_compile_definitions(troupe_tensors PRIVATE TROUPE_X86_LEVELS)
endif()
