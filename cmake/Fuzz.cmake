# Creates one program for each tests/fuzz/<target>_fuzz.cpp. With TROUPE_FUZZ (clang,
# preset `fuzz`), libFuzzer generates the inputs of the programs, and the target
# `fuzzers` builds all programs. Without TROUPE_FUZZ, the test fuzz.replay.<target>
# runs a program on the inputs of its corpus, and the target `fuzz_tests` builds all
# programs.
if(TROUPE_FUZZ)
  add_custom_target(fuzzers)
  set(fuzz_main libfuzzer)
else()
  add_custom_target(fuzz_tests)
  set(fuzz_main replay)
endif()
add_library(troupe_fuzz_main OBJECT
  ${PROJECT_SOURCE_DIR}/tests/fuzz/${fuzz_main}.cpp
  ${PROJECT_SOURCE_DIR}/tests/fuzz/meter.cpp)
target_compile_features(troupe_fuzz_main PUBLIC cxx_std_20)
target_include_directories(troupe_fuzz_main PUBLIC ${troupe_include})
target_link_libraries(troupe_fuzz_main PRIVATE troupe_flags)

# troupe_fuzz(<target> <library>...)
function(troupe_fuzz target)
  set(program fuzz_${target})
  set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${target})
  add_executable(${program} ${PROJECT_SOURCE_DIR}/tests/fuzz/${target}_fuzz.cpp)
  set_target_properties(${program} PROPERTIES CXX_EXTENSIONS OFF)
  target_link_libraries(${program} PRIVATE troupe_fuzz_main ${ARGN} troupe_flags)
  if(TROUPE_FUZZ)
    target_link_options(${program} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers ${program})
  else()
    add_dependencies(fuzz_tests ${program})
    add_test(NAME fuzz.replay.${target} COMMAND ${program} ${corpus})
    set_tests_properties(fuzz.replay.${target} PROPERTIES TIMEOUT 120 LABELS fuzz)
  endif()
endfunction()

troupe_fuzz(addresses   Troupe::net)
troupe_fuzz(lane_pair   Troupe::net)
troupe_fuzz(collective  Troupe::strategies)
troupe_fuzz(frames      Troupe::net)
troupe_fuzz(handshake   Troupe::net)
troupe_fuzz(job_text    Troupe::training)
troupe_fuzz(membership  Troupe::actors)
troupe_fuzz(messages    Troupe::actors)
troupe_fuzz(packets     Troupe::net)
troupe_fuzz(saved_header Troupe::training)
troupe_fuzz(shm         Troupe::net)
troupe_fuzz(multiplexer Troupe::net)
troupe_fuzz(tf_config   Troupe::net)
