# Creates DNNL::dnnl. Debian's CMake package of oneDNN requires OpenCL's headers,
# which only its GPU interface uses. This file is installed beside
# TroupeConfig.cmake, which needs it too.
find_path(dnnl_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(dnnl_LIBRARY dnnl)
mark_as_advanced(dnnl_INCLUDE_DIR dnnl_LIBRARY)

set(dnnl_VERSION)
if(dnnl_INCLUDE_DIR)
  file(STRINGS ${dnnl_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h numbers
       REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  list(TRANSFORM numbers REPLACE "^.* " "")
  list(JOIN numbers "." dnnl_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(dnnl
  REQUIRED_VARS dnnl_LIBRARY dnnl_INCLUDE_DIR VERSION_VAR dnnl_VERSION)

if(dnnl_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES
    IMPORTED_LOCATION ${dnnl_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${dnnl_INCLUDE_DIR})
endif()
