# <astatide/astatide.h>, <astatide/astatide_c.h> and <astatide/version.h> for the build tree, the install rules with an
# exported package for find_package(astatide), and Debian packages by cpack.

configure_file("${PROJECT_SOURCE_DIR}/api/version.h.in" "${PROJECT_BINARY_DIR}/include/astatide/version.h" @ONLY)
# Includes are relative to the header that has them, so that C needs no more than the folder above.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/include/astatide/astatide_c.h" CONTENT
"#ifndef ASTATIDE_C_WRAPPER_H
#define ASTATIDE_C_WRAPPER_H
#include \"api/astatide_c.h\"
#include \"version.h\"
#endif
" @ONLY)
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/include/astatide/astatide.h" CONTENT
"#ifndef ASTATIDE_WRAPPER_H
#define ASTATIDE_WRAPPER_H
#include \"astatide_c.h\"
#ifdef __cplusplus
#include \"api/astatide.h\"
#endif
#endif
" @ONLY)

# The public headers: api/astatide.h, api/compare.h, api/tune.h, api/frontier.h, api/roofline.h and what they include, and those of the C interface.
set(public_headers api/astatide_c.h api/dlpack.h)
set(included api/astatide.h api/compare.h api/tune.h api/frontier.h api/roofline.h)
while(included)
  list(POP_FRONT included header)
  if(header IN_LIST public_headers)
    continue()
  endif()
  list(APPEND public_headers "${header}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${header}")
  file(STRINGS "${PROJECT_SOURCE_DIR}/${header}" lines REGEX "^#include \"")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" path "${line}")
    list(APPEND included "${path}")
  endforeach()
endwhile()

include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/astatide")
set(headers_dir "${CMAKE_INSTALL_INCLUDEDIR}/astatide")
if(BUILD_SHARED_LIBS)
  set(installed_libraries astatide_shared)
  set_target_properties(astatide_shared PROPERTIES EXPORT_NAME astatide)
else()
  get_property(installed_libraries GLOBAL PROPERTY ASTATIDE_LIBRARIES)
  if(ASTATIDE_CPU)
    list(APPEND installed_libraries astatide_llvm)
  endif()
endif()
install(TARGETS ${installed_libraries} EXPORT astatide_targets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library NAMELINK_COMPONENT development)
install(EXPORT astatide_targets NAMESPACE astatide:: DESTINATION "${package_dir}" COMPONENT development)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/astatide-config.cmake.in"
  "${PROJECT_BINARY_DIR}/astatide-config.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/astatide-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/astatide-config.cmake" "${PROJECT_BINARY_DIR}/astatide-config-version.cmake"
  DESTINATION "${package_dir}" COMPONENT development)
install(DIRECTORY "${PROJECT_BINARY_DIR}/include/astatide/" DESTINATION "${headers_dir}" COMPONENT development)
foreach(header IN LISTS public_headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES "${header}" DESTINATION "${headers_dir}/${folder}" COMPONENT development)
endforeach()

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME astatide)
set(CPACK_PACKAGE_CONTACT "Astatide developers <astatide@users.noreply.github.com>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Generator of attention kernels from algorithms and schedules")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_COMPONENTS_ALL program development)
# Of what programs and libraries load, dpkg-shlibdeps names the packages. Neither the driver nor NVRTC is among them:
# they are opened when they are first asked for.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME astatide)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libastatide-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
if(BUILD_SHARED_LIBS)
  list(APPEND CPACK_COMPONENTS_ALL library)
  set(runtime_package "libastatide${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME "${runtime_package}")
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${runtime_package} (= ${PROJECT_VERSION})")
  # dpkg-shlibdeps looks for a library that is packed at the same time here.
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
else()
  # What a program links beside the archives.
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libfmt-dev, libyaml-cpp-dev")
  if(ASTATIDE_CPU)
    string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", llvm-19-dev")
  endif()
endif()
include(CPack)
