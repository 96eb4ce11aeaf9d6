# troupe_unity_groups(<target>): chooses which sources of a target one translation unit
# includes with CMAKE_UNITY_BUILD: at most twelve of one folder. Such a build compiles
# several times faster, but a change of one source compiles its whole group again. A
# source with properties of its own stays apart. So do the sources whose short names
# others of the folder have too, such as `forward`, `backward` and `cases` of an op.
set(troupe_apart
  tensors/ops/
  tests/simulation/thousand_seeds_test
  tests/strategies/collective/state_machine_test
  tests/strategies/membership/participant_test
  tests/strategies/parameter_server/random_copies_job
  tests/training/parameter_server/registered_closures_test)
list(JOIN troupe_apart | troupe_apart)
function(troupe_unity_groups target)
  set(most 12)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # An anonymous namespace is in an included file here, but in no header.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "^${PROJECT_SOURCE_DIR}/.*\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "^${PROJECT_SOURCE_DIR}/(${troupe_apart})")
  set(folders "")
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    string(MAKE_C_IDENTIFIER ${folder} folder)
    list(APPEND folders ${folder})
    list(APPEND sources_${folder} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder ${folders})
    list(LENGTH sources_${folder} count)
    math(EXPR groups "(${count} + ${most} - 1) / ${most}")
    set(i 0)
    foreach(source ${sources_${folder}})
      math(EXPR group "${i} * ${groups} / ${count}")
      set_property(SOURCE ${source} PROPERTY UNITY_GROUP ${folder}_${group})
      math(EXPR i "${i} + 1")
    endforeach()
  endforeach()
endfunction()
