cmake_minimum_required(VERSION 3.25)
# cmake -Dnm=<nm> "-Dobjects=<object files>" -Dlevel=<level> -P kernel_symbols.cmake
#
# Fails if the kernels of an instruction set level define a symbol outside the
# namespace of the level. The linker may use such a function for other levels
# too. A processor that lacks instructions of this level would then run it.
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
