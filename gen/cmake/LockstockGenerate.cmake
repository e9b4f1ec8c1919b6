# lockstock_generate(<target> <a.proto>... [IMPORT_DIRS <dir>...] [PARTS types client server] [STATIC])
#
# Adds the code that protoc-gen-lockstock generates from the files to an existing target, puts its
# headers on the target's PUBLIC include path (#include "a.lks.h",
# "a.lks_client.h", "a.lks_server.h") and links the library that each part needs.
# All parts by default. STATIC: it links lockstock's static libraries.
#
# The files are named relative to the current source directory or to one of
# IMPORT_DIRS, as an `import` names them. lockstock's own files can be imported, and so can
# Google's well-known types (google/protobuf/timestamp.proto and so on): their code is the
# library lockstock_google_types, made once and linked to each target that needs it. Must be
# called in the directory of the target.
function(lockstock_generate target)
  cmake_parse_arguments(ARG "STATIC" "" "IMPORT_DIRS;PARTS" ${ARGN})
  set(kind "$<$<BOOL:${ARG_STATIC}>:-static>")
  set(arguments ${ARGV})
  list(REMOVE_ITEM arguments STATIC)
  lockstock_generate_sources(${arguments})
  target_link_libraries(${target} PUBLIC lockstock::rpc${kind})
  if(NOT ARG_PARTS OR "client" IN_LIST ARG_PARTS)
    target_link_libraries(${target} PUBLIC lockstock::lockstock${kind})
  endif()
endfunction()

# The same without the libraries, for code that is part of one of them.
function(lockstock_generate_sources target)
  find_program(PROTOC protoc REQUIRED)
  find_program(PROTOC_GEN_C protoc-gen-c REQUIRED) # run by protoc-gen-lockstock
  find_path(PROTOBUF_PROTO_DIR google/protobuf/descriptor.proto PATHS /usr/include REQUIRED)
  cmake_parse_arguments(ARG "" "" "IMPORT_DIRS;PARTS" ${ARGN})
  if(NOT ARG_PARTS)
    set(ARG_PARTS types client server)
  endif()
  get_property(lockstock_protos GLOBAL PROPERTY LOCKSTOCK_PROTO_DIR)
  set(roots "${CMAKE_CURRENT_SOURCE_DIR}")
  foreach(dir IN LISTS ARG_IMPORT_DIRS ITEMS "${lockstock_protos}" "${PROTOBUF_PROTO_DIR}")
    get_filename_component(dir "${dir}" ABSOLUTE)
    list(APPEND roots "${dir}")
  endforeach()
  list(REMOVE_DUPLICATES roots)
  list(TRANSFORM roots PREPEND "--proto_path=" OUTPUT_VARIABLE proto_paths)

  set(out "${CMAKE_CURRENT_BINARY_DIR}/${target}.lockstock")
  file(MAKE_DIRECTORY "${out}")
  list(JOIN ARG_PARTS "," parts)
  set(command "${PROTOC}" ${proto_paths}
    "--plugin=protoc-gen-lockstock=$<TARGET_FILE:lockstock::protoc-gen-lockstock>"
    "--lockstock_out=${parts}:${out}")

  set(google)
  set(suffixes_types .pb-c .lks)
  set(suffixes_client .lks_client)
  set(suffixes_server .lks_server)
  foreach(proto IN LISTS ARG_UNPARSED_ARGUMENTS)
    _lockstock_find_proto("${proto}" "${roots}" file)
    if(NOT file)
      message(FATAL_ERROR "lockstock_generate(${target}): ${proto} is in none of: ${roots}")
    endif()
    set(sources "${file}")
    _lockstock_add_imports(sources "${file}" "${roots}")
    list(APPEND google ${sources})
    string(REGEX REPLACE "\\.proto$" "" stem "${out}/${proto}")
    set(made)
    foreach(part IN LISTS ARG_PARTS)
      foreach(suffix IN LISTS suffixes_${part})
        list(APPEND made "${stem}${suffix}.c" "${stem}${suffix}.h")
      endforeach()
    endforeach()
    # In another directory protoc could take the name for a relative path.
    add_custom_command(OUTPUT ${made} COMMAND ${command} "${proto}" WORKING_DIRECTORY "${out}"
      DEPENDS ${sources} "$<TARGET_FILE:lockstock::protoc-gen-lockstock>"
      COMMENT "Generating C from ${proto}" VERBATIM)
    target_sources(${target} PRIVATE ${made})
  endforeach()
  target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${out}>")
  _lockstock_link_google(${target} "${google}" "${ARG_UNPARSED_ARGUMENTS}")
endfunction()

# Links the types of Google's files if one of `files` is such a file, except for a target that
# generates them itself (`own`), and for descriptor.proto, whose code is in libprotobuf-c.
function(_lockstock_link_google target files own)
  set(types any duration empty field_mask source_context struct timestamp wrappers)
  set(wanted)
  foreach(type IN LISTS types)
    if("${PROTOBUF_PROTO_DIR}/google/protobuf/${type}.proto" IN_LIST files
        AND NOT "google/protobuf/${type}.proto" IN_LIST own)
      set(wanted TRUE)
    endif()
  endforeach()
  if(NOT wanted)
    return()
  endif()
  if(NOT TARGET lockstock_google_types)
    list(TRANSFORM types REPLACE "(.+)" "google/protobuf/\\1.proto")
    add_library(lockstock_google_types STATIC)
    set_target_properties(lockstock_google_types PROPERTIES POSITION_INDEPENDENT_CODE ON)
    lockstock_generate_sources(lockstock_google_types ${types} PARTS types)
    # Shared or static: what links these types links one of them.
    target_include_directories(lockstock_google_types PUBLIC
      "$<TARGET_PROPERTY:lockstock::rpc,INTERFACE_INCLUDE_DIRECTORIES>")
  endif()
  target_link_libraries(${target} PUBLIC lockstock_google_types)
endfunction()

# The path of an imported file in the first root that has it, as protoc does; "" if none has it.
function(_lockstock_find_proto proto roots ret)
  set(${ret} "" PARENT_SCOPE)
  foreach(root IN LISTS roots)
    if(EXISTS "${root}/${proto}")
      set(${ret} "${root}/${proto}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Appends the imports of `file`, recursively. (protoc can write a depfile,
# but not one for paths with spaces.)
function(_lockstock_add_imports list file roots)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  file(STRINGS "${file}" lines REGEX "^[ \t]*import[ \t]")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[^\"']*[\"']([^\"']+)[\"'].*$" "\\1" proto "${line}")
    _lockstock_find_proto("${proto}" "${roots}" import)
    if(import AND NOT import IN_LIST ${list})
      list(APPEND ${list} "${import}")
      _lockstock_add_imports(${list} "${import}" "${roots}")
    endif()
  endforeach()
  set(${list} "${${list}}" PARENT_SCOPE)
endfunction()
