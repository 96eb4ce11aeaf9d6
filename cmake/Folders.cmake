# An include path is the same in the source tree and after installation:
# "troupe/<folder>/<file>".
set(troupe_include ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${troupe_include})
file(CREATE_LINK ${PROJECT_SOURCE_DIR} ${troupe_include}/troupe SYMBOLIC)

# Compiler flags of all translation units of this project. Contraction to fused
# multiply-adds is off, because a sum must have the same bits at every optimization
# level.
add_library(troupe_flags INTERFACE)
target_compile_options(troupe_flags INTERFACE -Wall -Wextra -Wpedantic -ffp-contract=off
  # g++ 12 gives false warnings for "x" + string at -O3 (PR 105651).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-Wno-restrict>
  # clang gives false warnings for a `this` that only some instantiations use.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-unused-lambda-capture>)

# The tests and the tool are not optimized with a sanitizer, where optimizing takes
# most of the time of the compiler.
add_library(troupe_unoptimized_in_debug INTERFACE)
target_compile_options(troupe_unoptimized_in_debug INTERFACE $<$<CONFIG:Debug>:-O0>)

# troupe_folder(<folder> [MAY_USE <folder or imported target>...]
#                        [PRIVATE <imported target>...]
#                        [SUBFOLDERS <subfolder>:<subfolder>,...  ...]
#                        [WITHOUT <regular expression>] [OPTIONAL])
#
# Creates the static library Troupe::<folder> from all .cpp files of a top-level
# folder and its subfolders, and installs it with its headers. MAY_USE names the
# folders and libraries whose headers the folder may include; it may also include what
# these folders may. All MAY_USE lists together are the import DAG. Any other #include
# fails the test `imports.<folder>`. Only the .cpp files of the folder use PRIVATE
# libraries.
#
# SUBFOLDERS is the import DAG inside the folder, lowest subfolder first. After the
# colon stand the subfolders whose headers a subfolder may include; it may also
# include what these may. `.` stands for the files directly in the folder, and `a+b` for
# subfolders that include each other. A subfolder may have subfolders of its own, such as
# `loop/fit`; those that are not declared belong to it. The test also fails if a folder
# has more than 30 files beside its subfolders. WITHOUT matches the system headers that
# the folder must not include. OPTIONAL: the library is installed only if it was built,
# and its target is in a set of its own.
function(troupe_folder folder)
  cmake_parse_arguments(arg "OPTIONAL" "WITHOUT" "MAY_USE;PRIVATE;SUBFOLDERS" ${ARGN})
  set(reach ${arg_MAY_USE})
  foreach(used ${arg_MAY_USE})
    list(APPEND reach ${reach_of_${used}})
  endforeach()
  list(REMOVE_DUPLICATES reach)
  set(reach_of_${folder} ${reach} PARENT_SCOPE)
  list(TRANSFORM arg_MAY_USE PREPEND Troupe:: REGEX "^[a-z]+$" OUTPUT_VARIABLE libraries)

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  # cmake/Kernels.cmake, cmake/Allocator.cmake and cmake/Cuda.cmake build these folders.
  list(FILTER sources EXCLUDE REGEX
    "/tensors/(kernels|allocator)/|^${PROJECT_SOURCE_DIR}/${folder}/(.*/)?cuda/")
  if(NOT sources) # a folder of headers only
    set(sources ${PROJECT_BINARY_DIR}/empty.cpp)
    file(WRITE ${sources} "")
  endif()
  add_library(troupe_${folder} STATIC ${sources})
  add_library(Troupe::${folder} ALIAS troupe_${folder})
  set_target_properties(troupe_${folder} PROPERTIES
    EXPORT_NAME ${folder} CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  target_compile_features(troupe_${folder} PUBLIC cxx_std_20)
  target_include_directories(troupe_${folder} PUBLIC
    $<BUILD_INTERFACE:${troupe_include}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(troupe_${folder} PUBLIC ${libraries}
    PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:troupe_flags>)
  troupe_unity_groups(troupe_${folder})

  if(arg_OPTIONAL)
    install(TARGETS troupe_${folder} EXPORT Troupe_${folder} ARCHIVE DESTINATION lib
            OPTIONAL)
  else()
    install(TARGETS troupe_${folder} EXPORT Troupe ARCHIVE DESTINATION lib)
  endif()
  install(DIRECTORY ${folder} DESTINATION include/troupe FILES_MATCHING PATTERN *.hpp
          # only used by their own sources
          PATTERN kernels EXCLUDE PATTERN allocator EXCLUDE PATTERN cuda EXCLUDE)

  troupe_imports_test(${folder} ${folder} MAY_USE ${reach} ${arg_PRIVATE}
    SUBFOLDERS ${arg_SUBFOLDERS} WITHOUT ${arg_WITHOUT})
endfunction()

# troupe_imports_test(<name> <folder> [MAY_USE ...] [SUBFOLDERS ...] [WITHOUT ...]):
# creates the test `imports.<name>` of a folder. Here MAY_USE lists all folders and
# libraries whose headers the folder may include.
function(troupe_imports_test name folder)
  cmake_parse_arguments(arg "" "WITHOUT" "MAY_USE;SUBFOLDERS" ${ARGN})
  if(PROJECT_IS_TOP_LEVEL)
    add_test(NAME imports.${name}
             COMMAND ${CMAKE_COMMAND} -Dfolder=${folder} "-Dreach=${arg_MAY_USE}"
                     "-Dsubfolders=${arg_SUBFOLDERS}" "-Dwithout=${arg_WITHOUT}"
                     -P ${PROJECT_SOURCE_DIR}/tests/support/imports.cmake
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  endif()
endfunction()
