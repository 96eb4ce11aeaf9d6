cmake_minimum_required(VERSION 3.25)
# cmake -Dnm=<nm> "-Dobjects=<object files>" -Dlevel=<level> -P kernel_symbols.cmake
#
# Fails if the kernels of a level define anything outside their own namespace: a
# function that the linker may share with other levels would run this level's
# instructions on processors that lack them.
set(defined 0)
foreach(object ${objects})
  execute_process(COMMAND ${nm} -C --defined-only --extern-only ${object}
                  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" symbols "${symbols}")
  foreach(symbol ${symbols})
    math(EXPR defined "${defined} + 1")
    if(NOT symbol MATCHES "^[0-9a-f]+ [TRDB] troupe::${level}::")
      message(SEND_ERROR "${object}: ${symbol}")
    endif()
  endforeach()
endforeach()
if(defined LESS 4)
  message(SEND_ERROR "${level}: ${defined} symbols; nm shows too little")
endif()
message(STATUS "${level}: ${defined} symbols")
