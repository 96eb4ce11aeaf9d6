cmake_minimum_required(VERSION 3.25)
# Installs ${build} as after a build of the tool alone, that is, without
# libtroupe_simulation.a. A project must find the package there.
set(scratch ${build}/install_tool_scratch)
file(REMOVE_RECURSE ${scratch})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# The path of a library that does not exist stands for one that was not built.
file(READ ${build}/cmake_install.cmake script)
string(REPLACE "${build}/libtroupe_simulation.a" "${scratch}/none/libtroupe_simulation.a"
       changed "${script}")
if(changed STREQUAL script)
  message(FATAL_ERROR "the installation does not name ${build}/libtroupe_simulation.a")
endif()
file(WRITE ${scratch}/cmake_install.cmake "${changed}")
run(${CMAKE_COMMAND} -DCMAKE_INSTALL_PREFIX=${scratch}/prefix
    -P ${scratch}/cmake_install.cmake)

file(WRITE ${scratch}/CMakeLists.txt "
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CXX)
find_package(Troupe CONFIG REQUIRED)
if(NOT TARGET Troupe::troupe)
  message(FATAL_ERROR \"there is no Troupe::troupe\")
endif()
if(TARGET Troupe::simulation)
  message(FATAL_ERROR \"Troupe::simulation was not installed\")
endif()
")
run(${CMAKE_COMMAND} -S ${scratch} -B ${scratch}/app -G "${generator}"
    -DCMAKE_PREFIX_PATH=${scratch}/prefix -DCMAKE_CXX_COMPILER=${compiler}
    "-DCMAKE_CXX_FLAGS=${flags}")
