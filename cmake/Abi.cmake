# What a library promises to programs that were linked with it (docs/decisions.md). Before 1.0 a minor version may break it, and is
# part of the soname: liblockstock.so.0.2. cmake/Package.cmake and the names of Debian's packages say the same.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(LOCKSTOCK_SOVERSION "0.${PROJECT_VERSION_MINOR}")
  set(LOCKSTOCK_COMPATIBILITY SameMinorVersion)
else()
  set(LOCKSTOCK_SOVERSION "${PROJECT_VERSION_MAJOR}")
  set(LOCKSTOCK_COMPATIBILITY SameMajorVersion)
endif()

option(LOCKSTOCK_STATIC "build static libraries too" ${PROJECT_IS_TOP_LEVEL})

# lockstock_abi(<shared library> PARTS <targets...> LIBS <names...>)
#
# The library exports what <shared library>.map says, with its soname as the version of the symbols, and nothing else. The static
# one is a single object of the library and its PARTS, in which everything else is local: it cannot clash with names of a program.
# LIBS: what a program that links it needs too.
function(lockstock_abi target)
  cmake_parse_arguments(ARG "" "" "PARTS;LIBS" ${ARGN})
  string(TOUPPER "${target}_${LOCKSTOCK_SOVERSION}" node)
  string(REPLACE "-" "_" node "${node}")
  set(map "${CMAKE_CURRENT_BINARY_DIR}/${target}.map")
  configure_file("${target}.map" "${map}" @ONLY)
  target_link_options(${target} PRIVATE "-Wl,--version-script=${map}")
  set_target_properties(${target} PROPERTIES
    # Hidden by the map rather than by the compiler: the headers stay free of attributes.
    C_VISIBILITY_PRESET default
    VERSION "${PROJECT_VERSION}" SOVERSION "${LOCKSTOCK_SOVERSION}" LINK_DEPENDS "${map}")
  list(TRANSFORM ARG_LIBS PREPEND "-l" OUTPUT_VARIABLE private)
  list(JOIN private " " private)
  set_property(GLOBAL PROPERTY "LOCKSTOCK_LIBS_${target}" "${private}")
  if(NOT LOCKSTOCK_STATIC)
    return()
  endif()

  set(archive "${CMAKE_CURRENT_BINARY_DIR}/lib${target}.a")
  set(object "${CMAKE_CURRENT_BINARY_DIR}/${target}.static.o")
  file(STRINGS "${map}" keep REGEX "^ +[a-z0-9_]+[*]?;")
  list(TRANSFORM keep REPLACE "^ +(.*);" "--keep-global-symbol=\\1")
  set(objects "$<TARGET_OBJECTS:${target}>")
  foreach(part IN LISTS ARG_PARTS)
    list(APPEND objects "$<TARGET_OBJECTS:${part}>")
  endforeach()
  add_custom_command(OUTPUT "${archive}" BYPRODUCTS "${object}"
    COMMAND "${CMAKE_LINKER}" -r -o "${object}" ${objects}
    COMMAND "${CMAKE_OBJCOPY}" --wildcard ${keep} "${object}"
    COMMAND "${CMAKE_COMMAND}" -E rm -f "${archive}"
    COMMAND "${CMAKE_AR}" qcs "${archive}" "${object}"
    DEPENDS ${objects} "${map}" COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(${target}-static ALL DEPENDS "${archive}")
  install(FILES "${archive}" DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT static)
endfunction()
