# astatide_library(NAME FOLDER folder [INCLUDE regex] [EXCLUDE regex] [PUBLIC targets…] [PRIVATE targets…])
#
# One static library from the .cpp files right in a folder, narrowed by INCLUDE and EXCLUDE over the full path. A folder
# with no .cpp file gives an interface library of the same name.
function(astatide_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOLDER;INCLUDE;EXCLUDE" "PUBLIC;PRIVATE")
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
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  else()
    add_library(${name} INTERFACE)
    set(public INTERFACE)
  endif()
  add_library(astatide::${name} ALIAS ${name})
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
