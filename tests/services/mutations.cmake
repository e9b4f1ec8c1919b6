# cmake -DBIN=<dir with the test programs> -DLIST=<mutations_x.cmake> -P mutations.cmake
# Takes the lines that keep the promises out of the function library, one at a
# time, and wants the named test to fail each time.
cmake_minimum_required(VERSION 3.25)
set(count 0)
set(unseen "")

# mutation(<what is promised> <test program> <text of the library> <what stands there instead>)
function(mutation promise test find replace)
  math(EXPR n "${count} + 1")
  set(count ${n} PARENT_SCOPE)
  set(ENV{LOCKSTOCK_MUTATION_FIND} "${find}")
  set(ENV{LOCKSTOCK_MUTATION_REPLACE} "${replace}")
  execute_process(COMMAND "${BIN}/${test}" RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out TIMEOUT 100)
  # A text that is not there, or Lua that does not load, shows nothing.
  if(result EQUAL 0 OR out MATCHES "the function library")
    set(unseen "${unseen}\n  ${promise}: ${find}" PARENT_SCOPE)
  endif()
endfunction()

include("${LIST}")

if(unseen)
  message(FATAL_ERROR "no test fails without${unseen}")
endif()
message("${count} mutations, each seen by a test")
