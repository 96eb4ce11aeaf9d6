cmake_minimum_required(VERSION 3.25)
# Fails if <troupe/troupe.hpp> includes a header of the libraries ${hidden}, which are
# implementation details.
set(hidden caf Eigen oneapi boost cereal nlohmann spdlog)

execute_process(
  COMMAND ${compiler} -std=c++20 -M -I${include} ${include}/troupe/troupe.hpp
  OUTPUT_VARIABLE seen COMMAND_ERROR_IS_FATAL ANY)
if(NOT seen MATCHES "/troupe/troupe\\.hpp")
  message(FATAL_ERROR "the compiler lists no headers: ${seen}")
endif()
foreach(library ${hidden})
  if(seen MATCHES "[^ ]*/${library}/[^ ]*")
    message(SEND_ERROR "troupe.hpp includes ${CMAKE_MATCH_0}")
  endif()
endforeach()
