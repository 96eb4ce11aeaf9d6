find_package(GTest REQUIRED)
include(GoogleTest)

# troupe_tests(<folder> [<library>...]): builds one program from all *_test.cpp files
# of tests/<folder>. Sources are globbed, so that no test can be left out.
function(troupe_tests folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${folder}_tests ${sources})
  set_target_properties(${folder}_tests PROPERTIES CXX_EXTENSIONS OFF)
  # Only tests that read files of the source tree get its path. The objects of all
  # other tests are equal in every checkout, so a compiler cache can reuse them.
  foreach(source ${sources})
    file(STRINGS ${source} names REGEX "TROUPE_SOURCE_DIR|wire_doc.hpp")
    if(names)
      set_property(SOURCE ${source} APPEND PROPERTY
        COMPILE_DEFINITIONS TROUPE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    endif()
  endforeach()
  # The code under test is optimized more than the tests, which compile faster this
  # way.
  target_compile_options(${folder}_tests PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  target_link_libraries(${folder}_tests PRIVATE ${ARGN} GTest::gtest_main troupe_flags
                        troupe_unoptimized_in_debug)
  troupe_unity_groups(${folder}_tests)
  # Some tests of the programs run several jobs, each with several processes.
  set(timeout 120)
  if(folder STREQUAL apps)
    set(timeout 300)
  endif()
  gtest_discover_tests(${folder}_tests DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES
    TEST_PREFIX ${folder}. PROPERTIES TIMEOUT ${timeout} LABELS ${folder})
endfunction()

# These tests replace operator new and malloc. The sanitizers replace them too.
if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  add_library(troupe_malloc_counter OBJECT
    ${PROJECT_SOURCE_DIR}/tests/support/malloc_counter.cpp)
  target_compile_features(troupe_malloc_counter PUBLIC cxx_std_20)
  target_include_directories(troupe_malloc_counter PUBLIC ${troupe_include})
  troupe_tests(allocation Troupe::training Troupe::step_allocator troupe_malloc_counter)
endif()
troupe_tests(tensors    Troupe::tensors)
# As on a processor that has no instructions for products of bfloat16.
add_test(NAME tensors.bfloat16_converted
         COMMAND tensors_tests --gtest_filter=*Bfloat16*)
set_tests_properties(tensors.bfloat16_converted PROPERTIES
  ENVIRONMENT ONEDNN_MAX_CPU_ISA=AVX512_CORE LABELS tensors)
troupe_tests(strategies random_jobs nlohmann_json::nlohmann_json)
troupe_tests(net        Troupe::net OpenSSL::Crypto cereal::cereal)
troupe_tests(data       Troupe::data ZLIB::ZLIB)
troupe_tests(models     Troupe::models nlohmann_json::nlohmann_json)
troupe_tests(actors     Troupe::simulation)
troupe_tests(training   Troupe::training nlohmann_json::nlohmann_json)
add_test(NAME training.bf16_converted COMMAND training_tests --gtest_filter=Bf16.*)
set_tests_properties(training.bf16_converted PROPERTIES
  ENVIRONMENT ONEDNN_MAX_CPU_ISA=AVX512_CORE LABELS training)
if(TROUPE_HAS_CUDA)
  # Skipped on a machine without a CUDA device.
  troupe_tests(cuda Troupe::training)
endif()
troupe_tests(simulation Troupe::simulation)
add_test(NAME simulation.planted
         COMMAND ${PROJECT_SOURCE_DIR}/scripts/planted-bugs.sh --check)
if(TARGET actors_tests)
  target_sources(actors_tests PRIVATE
                 ${PROJECT_SOURCE_DIR}/tests/actors/shard/random_training.cpp)
endif()
foreach(folder net actors)
  if(TARGET ${folder}_tests)
    target_sources(${folder}_tests PRIVATE
                   ${PROJECT_SOURCE_DIR}/tests/support/loopback_channel.cpp)
  endif()
endforeach()
troupe_tests(apps       Troupe::troupe nlohmann_json::nlohmann_json OpenSSL::Crypto)
if(TARGET apps_tests)
  # The tests start these programs as child processes.
  file(GLOB programs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/apps/programs/*.cpp)
  foreach(program ${programs})
    get_filename_component(name ${program} NAME_WE)
    add_executable(program_${name} ${program})
    set_target_properties(program_${name} PROPERTIES CXX_EXTENSIONS OFF OUTPUT_NAME ${name}
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/programs)
    target_link_libraries(program_${name} PRIVATE Troupe::troupe troupe_flags)
    add_dependencies(apps_tests program_${name})
  endforeach()
  target_sources(apps_tests PRIVATE ${PROJECT_SOURCE_DIR}/tests/apps/tool.cpp
                 ${PROJECT_SOURCE_DIR}/apps/troupe/launcher/child_processes.cpp
                 ${PROJECT_SOURCE_DIR}/apps/troupe/launcher/restart_policy.cpp
                 ${PROJECT_SOURCE_DIR}/apps/troupe/launcher/spawn_child.cpp)
  target_compile_definitions(apps_tests PRIVATE
    TROUPE_PROGRAMS="${PROJECT_BINARY_DIR}/programs"
    TROUPE_TOOL="$<TARGET_FILE:troupe_tool>"
    TROUPE_EXAMPLES="$<TARGET_FILE_DIR:example_embed>")
  add_dependencies(apps_tests troupe_tool example_embed example_loop example_mirrored
                   example_regression example_servers example_workers)
endif()

# style.<name>: checks of the tracked files. Exit code 77 means "skipped".
foreach(what format words replaced_words snippets test_names ci_rotation)
  add_test(NAME style.${what} COMMAND ${PROJECT_SOURCE_DIR}/tests/style/${what}.sh
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(style.${what} PROPERTIES SKIP_RETURN_CODE 77)
endforeach()
# Where functions are defined, and who calls them.
foreach(what member_sources strategy_callers structure_test)
  add_test(NAME style.${what} COMMAND ${PROJECT_SOURCE_DIR}/tests/style/${what}.py
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endforeach()

# kernels.symbols.<level>: kernels define no symbol that the linker could share
# between levels. Sanitizers define weak symbols in every object, so the tests are
# left out.
foreach(level baseline v3 v4)
  if(TARGET troupe_kernels_${level} AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    add_test(NAME kernels.symbols.${level}
             COMMAND ${CMAKE_COMMAND} -Dnm=${CMAKE_NM} -Dlevel=${level}
                     "-Dobjects=$<TARGET_OBJECTS:troupe_kernels_${level}>"
                     -P ${PROJECT_SOURCE_DIR}/tests/support/kernel_symbols.cmake)
  endif()
endforeach()

add_test(NAME imports.catches
         COMMAND ${CMAKE_COMMAND} -Droot=${PROJECT_SOURCE_DIR}
                 -Dscratch=${PROJECT_BINARY_DIR}/imports_scratch
                 -P ${PROJECT_SOURCE_DIR}/tests/support/imports_test.cmake)

# install.<name>: builds programs that use the library as its users do: installed, and
# as a subdirectory.
set(for_users -Droot=${PROJECT_SOURCE_DIR} -Dbuild=${PROJECT_BINARY_DIR}
  "-Dgenerator=${CMAKE_GENERATOR}" -Dcompiler=${CMAKE_CXX_COMPILER}
  "-Dflags=${CMAKE_CXX_FLAGS}" "-Dlauncher=${CMAKE_CXX_COMPILER_LAUNCHER}"
  "-Dunity=${CMAKE_UNITY_BUILD}"
  -Dinclude=${troupe_include})
foreach(what consume embed shows_no_caf tool_only)
  add_test(NAME install.${what}
           COMMAND ${CMAKE_COMMAND} ${for_users}
                   -P ${PROJECT_SOURCE_DIR}/tests/install/${what}.cmake)
  set_tests_properties(install.${what} PROPERTIES TIMEOUT 600)
endforeach()
