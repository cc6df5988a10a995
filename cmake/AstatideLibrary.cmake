# astatide_library(NAME FOLDER folder [NO_ALIAS] [INCLUDE regex] [EXCLUDE regex] [PUBLIC targets…] [PRIVATE targets…])
#
# One static library from the .cpp files right in a folder, narrowed by INCLUDE and EXCLUDE over the full path. A folder
# with no .cpp file gives an interface library of the same name.
#
# What the public headers do not declare is hidden: see compiler/support/visibility.h.
#
# astatide_shared_library(NAME OUTPUT_NAME name): one shared library of the objects of all libraries so far. It exports the C
# interface and the C++ API. The archives stay what they are: the program and the tests, which use more, link those.
function(astatide_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_ALIAS" "FOLDER;INCLUDE;EXCLUDE" "PUBLIC;PRIVATE")
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${arg_FOLDER}/*.cpp")
  if(arg_INCLUDE)
    list(FILTER sources INCLUDE REGEX "${arg_INCLUDE}")
  endif()
  if(arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${arg_EXCLUDE}")
  endif()

  if(sources)
    add_library(${name} STATIC ${sources})
    set(public PUBLIC)
    target_link_libraries(${name} PRIVATE ${arg_PRIVATE} ${ASTATIDE_FMT} $<BUILD_INTERFACE:astatide_options>)
    set_target_properties(${name} PROPERTIES
      POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  else()
    add_library(${name} INTERFACE)
    set(public INTERFACE)
  endif()
  if(NOT arg_NO_ALIAS)
    add_library(astatide::${name} ALIAS ${name})
  endif()
  target_link_libraries(${name} ${public} ${arg_PUBLIC})
  target_compile_features(${name} ${public} cxx_std_20)
  # Includes are relative to the root of the tree; the installed headers keep that layout below include/astatide.
  target_include_directories(${name} ${public}
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
    "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/astatide>")
  if(ASTATIDE_CPU)
    target_compile_definitions(${name} ${public} ASTATIDE_WITH_CPU=1)
  endif()
  set_property(GLOBAL APPEND PROPERTY ASTATIDE_LIBRARIES ${name})
endfunction()

function(astatide_shared_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT_NAME" "")
  get_property(parts GLOBAL PROPERTY ASTATIDE_LIBRARIES)
  add_library(${name} SHARED)
  set(outside "")
  foreach(part IN LISTS parts)
    get_target_property(type ${part} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      target_sources(${name} PRIVATE $<TARGET_OBJECTS:${part}>)
      get_target_property(linked ${part} LINK_LIBRARIES)
      list(APPEND outside ${linked})
    endif()
  endforeach()
  list(FILTER outside EXCLUDE REGEX "^astatide_|^astatide$|BUILD_INTERFACE:astatide_(options|yaml_cpp)")
  list(APPEND outside ${ASTATIDE_SHARED_YAML_CPP})
  list(REMOVE_DUPLICATES outside)
  target_link_libraries(${name} PRIVATE ${outside} $<$<BOOL:${ASTATIDE_CPU}>:astatide_llvm>
    $<BUILD_INTERFACE:astatide_options>)
  list(GET parts -1 top)
  foreach(property IN ITEMS INTERFACE_INCLUDE_DIRECTORIES INTERFACE_COMPILE_DEFINITIONS INTERFACE_COMPILE_FEATURES)
    get_target_property(value ${top} ${property})
    if(value)
      set_target_properties(${name} PROPERTIES ${property} "${value}")
    endif()
  endforeach()
  if(ASTATIDE_STATIC_DEPS)
    # yaml-cpp moves with it, in the same folder.
    set_target_properties(${name} PROPERTIES BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN")
  endif()
  # Before 1.0 a minor version may change anything.
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME ${arg_OUTPUT_NAME} VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  # Visibility says what of the project is exported; the script leaves out what of others was compiled along.
  set(script "${PROJECT_SOURCE_DIR}/cmake/exports.map")
  target_link_options(${name} PRIVATE -Wl,--no-undefined "-Wl,--version-script=${script}")
  set_target_properties(${name} PROPERTIES LINK_DEPENDS "${script}")
endfunction()
