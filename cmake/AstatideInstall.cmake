# <astatide/astatide.h> for the build tree, and the install rules with an exported package for find_package(astatide).

file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/include/astatide/astatide.h" CONTENT
"#pragma once
#include \"api/astatide.h\"
" @ONLY)

include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/astatide")
get_property(astatide_libraries GLOBAL PROPERTY ASTATIDE_LIBRARIES)
if(ASTATIDE_CPU)
  list(APPEND astatide_libraries astatide_llvm)
endif()
if(NOT ASTATIDE_STATIC_DEPS)
  install(TARGETS ${astatide_libraries} EXPORT astatide_targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT astatide_targets NAMESPACE astatide:: DESTINATION "${package_dir}")
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/astatide-config.cmake.in"
    "${PROJECT_BINARY_DIR}/astatide-config.cmake" INSTALL_DESTINATION "${package_dir}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/astatide-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/astatide-config.cmake" "${PROJECT_BINARY_DIR}/astatide-config-version.cmake"
    DESTINATION "${package_dir}")
  install(FILES "${PROJECT_BINARY_DIR}/include/astatide/astatide.h"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/astatide")
  foreach(folder IN ITEMS api compiler runtime)
    if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}")
      install(DIRECTORY ${folder} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/astatide" FILES_MATCHING PATTERN "*.h")
    endif()
  endforeach()
endif()
