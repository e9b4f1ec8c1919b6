# lockstock_protobuf_c(<target> ROOT <dir> PROTOS <a/b.proto>...)
# An object library of what protoc-c makes of the files, which are named relative
# to ROOT; dependents see the headers.
function(lockstock_protobuf_c target)
  cmake_parse_arguments(ARG "" "ROOT" "PROTOS" ${ARGN})
  set(out "${CMAKE_CURRENT_BINARY_DIR}/${target}")
  set(sources)
  foreach(proto IN LISTS ARG_PROTOS)
    string(REGEX REPLACE "\\.proto$" "" stem "${proto}")
    set(made "${out}/${stem}.pb-c.c" "${out}/${stem}.pb-c.h")
    add_custom_command(OUTPUT ${made}
      COMMAND "${CMAKE_COMMAND}" -E make_directory "${out}"
      COMMAND "${PROTOC_C}" "--proto_path=${ARG_ROOT}" "--proto_path=${PROTOBUF_PROTO_DIR}"
              "--c_out=${out}" "${ARG_ROOT}/${proto}"
      DEPENDS "${ARG_ROOT}/${proto}"
      VERBATIM)
    list(APPEND sources ${made})
  endforeach()
  add_library(${target} OBJECT ${sources})
  target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${out}>")
  target_link_libraries(${target} PUBLIC PkgConfig::PROTOBUF_C PRIVATE lockstock-generated-flags)
  # What protoc-c generates is part of the libraries' interface.
  set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET default)
endfunction()
