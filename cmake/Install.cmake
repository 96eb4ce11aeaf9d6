# Installs the CMake package. A program uses it with find_package(Troupe CONFIG) and
# target_link_libraries(app Troupe::troupe).
include(CMakePackageConfigHelpers)
set(package lib/cmake/Troupe)
install(TARGETS troupe EXPORT Troupe)
install(FILES ${PROJECT_SOURCE_DIR}/troupe.hpp DESTINATION include/troupe)
install(EXPORT Troupe NAMESPACE Troupe:: FILE TroupeTargets.cmake DESTINATION ${package})
install(EXPORT Troupe_simulation NAMESPACE Troupe:: FILE TroupeSimulationTargets.cmake
        DESTINATION ${package})
write_basic_package_version_file(TroupeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(${PROJECT_SOURCE_DIR}/cmake/TroupeConfig.cmake
               ${PROJECT_BINARY_DIR}/TroupeConfig.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/TroupeConfig.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindCAF.cmake
              ${PROJECT_SOURCE_DIR}/cmake/Finddnnl.cmake
              ${PROJECT_BINARY_DIR}/TroupeConfigVersion.cmake DESTINATION ${package})
