# lockstock-commit gives "commit.h". LOCKSTOCK_COMMIT is the commit that is built: 12 hex digits, with "-dirty" where files
# differ from it; "" where git does not know it. LOCKSTOCK_COMMIT_NOTE is " (<commit>)" or "", for behind a version. For a build
# of an archive -DLOCKSTOCK_COMMIT=<commit> sets it. Each build checks the header, and writes it only when it changes.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)
  if(NOT COMMIT)
    execute_process(COMMAND git describe --always --dirty --abbrev=12 "--exclude=*"
      WORKING_DIRECTORY "${SOURCE}" OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(COMMIT)
    set(note " (${COMMIT})")
  endif()
  file(CONFIGURE OUTPUT "${OUT}" @ONLY CONTENT
    "#define LOCKSTOCK_COMMIT \"@COMMIT@\"\n#define LOCKSTOCK_COMMIT_NOTE \"@note@\"\n")
  return()
endif()

set(LOCKSTOCK_COMMIT "" CACHE STRING "the commit that is built, where git does not know it")
set(commit_header "${PROJECT_BINARY_DIR}/commit/commit.h")
add_custom_target(lockstock-commit-header
  COMMAND "${CMAKE_COMMAND}" "-DCOMMIT=${LOCKSTOCK_COMMIT}" "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DOUT=${commit_header}"
          -P "${CMAKE_CURRENT_LIST_FILE}"
  BYPRODUCTS "${commit_header}" VERBATIM)
add_library(lockstock-commit INTERFACE)
target_include_directories(lockstock-commit INTERFACE "${PROJECT_BINARY_DIR}/commit")
add_dependencies(lockstock-commit lockstock-commit-header)
