# What an outside project finds after `cmake --install`: find_package(lockstock)
# with lockstock::lockstock, ::host, ::rpc, the same with -static, and lockstock_generate, and pkg-config's
# lockstock, lockstock-host and lockstock-rpc. The tree can be moved: nothing in it says where it is.
# Each install() names its component, which is a package of Debian's (packaging/debian): server, client (what programs that
# call need to run), host (the same for those that serve), dev, tools; peer and static are in no package.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/lockstock")
set(proto_dir "${CMAKE_INSTALL_DATADIR}/lockstock/proto")
set(pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

foreach(library lockstock lockstock-host)
  get_property(libs_${library} GLOBAL PROPERTY "LOCKSTOCK_LIBS_${library}")
endforeach()
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/lockstockConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/lockstockConfig.cmake" INSTALL_DESTINATION "${package_dir}"
  PATH_VARS proto_dir CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/lockstockConfigVersion.cmake"
  COMPATIBILITY ${LOCKSTOCK_COMPATIBILITY})
install(FILES "${PROJECT_BINARY_DIR}/lockstockConfig.cmake" "${PROJECT_BINARY_DIR}/lockstockConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/gen/cmake/LockstockGenerate.cmake" DESTINATION "${package_dir}" COMPONENT dev)
install(EXPORT lockstockTargets NAMESPACE lockstock:: DESTINATION "${package_dir}" COMPONENT dev)

file(RELATIVE_PATH pc_prefix "/${pkgconfig_dir}" "/")
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
set(packages lockstock lockstock-rpc)
if(LOCKSTOCK_SERVER)
  list(APPEND packages lockstock-host)
endif()
foreach(pc IN LISTS packages)
  get_property(private_libs GLOBAL PROPERTY "LOCKSTOCK_LIBS_${pc}")
  configure_file("${CMAKE_CURRENT_LIST_DIR}/${pc}.pc.in" "${PROJECT_BINARY_DIR}/${pc}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${pc}.pc" DESTINATION "${pkgconfig_dir}" COMPONENT dev)
endforeach()

# The libraries find each other, and the programs them, wherever the tree is.
file(RELATIVE_PATH bin_to_lib "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
get_property(rooms DIRECTORY "${PROJECT_SOURCE_DIR}" PROPERTY SUBDIRECTORIES)
foreach(room IN LISTS rooms)
  get_property(targets DIRECTORY "${room}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL SHARED_LIBRARY)
      set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN")
    elseif(type STREQUAL EXECUTABLE)
      set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
    endif()
  endforeach()
endforeach()
