cmake_minimum_required(VERSION 3.25)
# Runs ${example}: it must succeed, and its last line match ${says}.
execute_process(COMMAND ${example} OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
message("${said}")
string(REGEX REPLACE "^(.*\n)?([^\n]+)\n$" "\\2" last "${said}")
if(NOT last MATCHES "${says}")
  message(FATAL_ERROR "the last line should match ${says}: ${last}")
endif()
