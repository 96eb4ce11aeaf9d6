# Troupe::step_allocator replaces the global operator new in a program that links it,
# so that training steps do not call malloc (tensors/allocator/step_allocator.cpp). It
# is an object library, because a linker may omit a member of an archive if another
# library defines the same functions.
add_library(troupe_step_allocator OBJECT
  ${PROJECT_SOURCE_DIR}/tensors/allocator/step_allocator.cpp)
add_library(Troupe::step_allocator ALIAS troupe_step_allocator)
set_target_properties(troupe_step_allocator PROPERTIES
  EXPORT_NAME step_allocator CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
target_compile_features(troupe_step_allocator PUBLIC cxx_std_20)
target_include_directories(troupe_step_allocator PRIVATE ${troupe_include})
target_link_libraries(troupe_step_allocator PRIVATE $<BUILD_INTERFACE:troupe_flags>)
install(TARGETS troupe_step_allocator EXPORT Troupe OBJECTS DESTINATION lib)
