# Builds the tool `troupe` and the examples.
file(GLOB_RECURSE app_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/troupe/*.cpp)
if(app_sources)
  add_executable(troupe_tool ${app_sources})
  set_target_properties(troupe_tool PROPERTIES OUTPUT_NAME troupe CXX_EXTENSIONS OFF)
  target_link_libraries(troupe_tool PRIVATE Troupe::troupe CLI11::CLI11
    nlohmann_json::nlohmann_json Troupe::step_allocator troupe_flags
    troupe_unoptimized_in_debug)
  troupe_unity_groups(troupe_tool)
  install(TARGETS troupe_tool RUNTIME DESTINATION bin)
endif()

if(PROJECT_IS_TOP_LEVEL)
  troupe_imports_test(apps apps/troupe
    MAY_USE training ${reach_of_training} CLI11::CLI11 nlohmann_json::nlohmann_json
    SUBFOLDERS base: launcher:base commands:launcher .:commands)
  file(GLOB examples CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/examples/*.cpp)
  foreach(example ${examples})
    get_filename_component(name ${example} NAME_WE)
    add_executable(example_${name} ${example})
    target_link_libraries(example_${name} PRIVATE Troupe::troupe)
  endforeach()
endif()
