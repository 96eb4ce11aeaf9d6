cmake_minimum_required(VERSION 3.25)
# Makes a project that has ${root} as a subdirectory, then builds and runs its
# program. The program uses only tensors, so no other folder may be built.
set(scratch ${build}/embed_scratch)
file(REMOVE_RECURSE ${scratch})
file(WRITE ${scratch}/main.cpp "
#include <troupe/tensors/tensor.hpp>
int main() { return troupe::tensor::zeros({2, 3}).size() == 6 ? 0 : 1; }
")
file(WRITE ${scratch}/CMakeLists.txt "
cmake_minimum_required(VERSION 3.25)
project(embedder LANGUAGES CXX)
add_subdirectory(${root} troupe EXCLUDE_FROM_ALL)
add_executable(app main.cpp)
target_link_libraries(app PRIVATE Troupe::tensors)
")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} -S ${scratch} -B ${scratch}/app -G "${generator}"
    -DCMAKE_CXX_COMPILER=${compiler} -DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}
    -DCMAKE_UNITY_BUILD=${unity} -DTROUPE_CUDA=OFF)
run(${CMAKE_COMMAND} --build ${scratch}/app)
run(${scratch}/app/app)
