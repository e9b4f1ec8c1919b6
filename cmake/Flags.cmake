# One INTERFACE target for warnings and hardening; every target of ours links it
# PRIVATE. Generated code links lockstock-generated-flags instead.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Assertions stay: a state machine that makes a move not in its table must stop.
set(CMAKE_C_FLAGS_RELEASE "-O2")

find_program(CCACHE ccache)
if(CCACHE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_C_COMPILER_LAUNCHER "${CCACHE}")
endif()
if(LOCKSTOCK_TIDY)
  find_program(CLANG_TIDY clang-tidy REQUIRED)
  set(CMAKE_C_CLANG_TIDY "${CLANG_TIDY};--quiet")
  # What is generated is not looked at, and clang-tidy refuses to check nothing at all.
  file(WRITE "${PROJECT_BINARY_DIR}/.clang-tidy" "Checks: '-*,misc-redundant-expression'\n")
endif()

add_library(lockstock-generated-flags INTERFACE)
target_compile_definitions(lockstock-generated-flags INTERFACE _GNU_SOURCE)
target_compile_options(lockstock-generated-flags INTERFACE
  -fstack-protector-strong -fstack-clash-protection
  $<$<CONFIG:Release>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3>)
target_link_options(lockstock-generated-flags INTERFACE -Wl,-z,relro,-z,now)
if(LOCKSTOCK_SANITIZE)
  target_compile_options(lockstock-generated-flags INTERFACE
    -fsanitize=${LOCKSTOCK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(lockstock-generated-flags INTERFACE -fsanitize=${LOCKSTOCK_SANITIZE})
endif()
if(LOCKSTOCK_COVERAGE)
  target_compile_options(lockstock-generated-flags INTERFACE --coverage)
  target_link_options(lockstock-generated-flags INTERFACE --coverage)
endif()
if(LOCKSTOCK_FUZZ)
  target_compile_options(lockstock-generated-flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

define_property(TARGET PROPERTY LOCKSTOCK_TEST_CODE INITIALIZE_FROM_VARIABLE LOCKSTOCK_TEST_CODE)
add_library(lockstock-flags INTERFACE)
target_link_libraries(lockstock-flags INTERFACE lockstock-generated-flags)
target_compile_options(lockstock-flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wformat=2
  # Cases and their fixtures take a state that few of them use; for clang this must come after -Wextra.
  $<$<BOOL:$<TARGET_PROPERTY:LOCKSTOCK_TEST_CODE>>:-Wno-unused-parameter>
  $<$<BOOL:${LOCKSTOCK_WERROR}>:-Werror>)
