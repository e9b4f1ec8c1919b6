# The packages of Debian, a component each (cmake/Package.cmake):
#
#   cmake --preset debian && cmake --build --preset debian && (cd build/debian && cpack)
#
# Packages contain shared libraries only. Each exports what its map lists; a process has one event loop thread and one fork
# handler of liblockstock, however many of its parts link it; and an update of the library reaches all programs.
# liblockstock-host is a separate package, so that clients do not need libuv.
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL server client host dev tools)
set(CPACK_PACKAGE_CONTACT "lockstock maintainers <maintainers@lockstock.invalid>" CACHE STRING "the maintainer of the packages")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_PACKAGING_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/compress_manual.cmake")
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SOURCE lockstock)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1 CACHE STRING "the packages' own part of their version")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
  "${PROJECT_BINARY_DIR}/rpc" "${PROJECT_BINARY_DIR}/client" "${PROJECT_BINARY_DIR}/host")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=") # cmake/Abi.cmake; parts of one release do not see one another
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(exactly "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

# lockstock_deb(<component> <package> <section> <one line> <more lines> [DEPENDS ...] [CONTROL files...])
macro(lockstock_deb component package section summary description)
  cmake_parse_arguments(DEB "" "DEPENDS;RECOMMENDS;SUGGESTS" "CONTROL" ${ARGN})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${description}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${DEB_DEPENDS}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_RECOMMENDS "${DEB_RECOMMENDS}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_SUGGESTS "${DEB_SUGGESTS}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${DEB_CONTROL})
  install(FILES "${CMAKE_CURRENT_LIST_DIR}/copyright" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${package}"
    COMPONENT ${component})
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian.gz" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${package}"
    COMPONENT ${component})
endmacro()

# -n: without a time, so that the same sources make the same package.
execute_process(COMMAND gzip -9nc "${CMAKE_CURRENT_LIST_DIR}/changelog"
  OUTPUT_FILE "${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian.gz" COMMAND_ERROR_IS_FATAL ANY)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/lockstock-server"
  COMPONENT server FILES_MATCHING PATTERN "*.md" PATTERN "*.png")

set(what "lockstock serves locks with fences, stock that is never oversold, calls
that happen once, rate limits and ids, as typed RPC over SP (nng) and gRPC.
Its state is in Redis.
.
")
set(scripts "${CMAKE_CURRENT_LIST_DIR}/server")
lockstock_deb(server lockstock-server net "coordination of fleets: locks, stock, idempotency, rate limits, ids"
  "${what}This package has lockstockd, the server, and its systemd unit."
  DEPENDS "liblockstock${LOCKSTOCK_SOVERSION} ${exactly}, redis-server (>= 5:7.0), systemd | systemd-standalone-sysusers | systemd-sysusers, systemd | systemd-standalone-tmpfiles | systemd-tmpfiles"
  RECOMMENDS "lockstock-tools"
  CONTROL "${scripts}/postinst" "${scripts}/prerm" "${scripts}/postrm" "${scripts}/conffiles")
file(COPY_FILE "${CMAKE_CURRENT_LIST_DIR}/ldconfig-triggers" "${CMAKE_CURRENT_BINARY_DIR}/triggers")
lockstock_deb(client liblockstock${LOCKSTOCK_SOVERSION} libs "client library of lockstock"
  "${what}This package has the shared libraries that programs which call it need."
  CONTROL "${CMAKE_CURRENT_BINARY_DIR}/triggers")
lockstock_deb(host liblockstock-host${LOCKSTOCK_SOVERSION} libs "library to serve typed RPC services over lockstock's wires"
  "${what}This package has the shared library that programs which serve services
of their own need."
  DEPENDS "liblockstock${LOCKSTOCK_SOVERSION} ${exactly}"
  CONTROL "${CMAKE_CURRENT_BINARY_DIR}/triggers")
lockstock_deb(dev liblockstock-dev libdevel "headers, .proto files and code generator of lockstock"
  "${what}This package has what programs that call lockstock, or that serve services
of their own, are built with: headers, the .proto files, protoc-gen-lockstock,
files for CMake and pkg-config."
  DEPENDS "liblockstock${LOCKSTOCK_SOVERSION} ${exactly}, liblockstock-host${LOCKSTOCK_SOVERSION} ${exactly}, libprotobuf-c-dev, protobuf-c-compiler, protobuf-compiler, pkgconf | pkg-config")
lockstock_deb(tools lockstock-tools utils "command line of lockstock"
  "${what}This package has lockstock, which calls every method and runs programs
under locks, and lockstock-bench, which measures."
  DEPENDS "liblockstock${LOCKSTOCK_SOVERSION} ${exactly}")
include(CPack)
