# astatide_embed(NAME [function folder pattern]…)
#
# A static library that implements the functions of compiler/support/embedded.h: each returns the files below a folder
# that match a pattern, as text. A folder with a function of its own is no part of one above it. The texts are built again
# when a file changes, comes or goes.
function(astatide_embed name)
  set(script "${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake")
  set(specification "")
  set(all_files "")
  set(rest ${ARGN})
  while(rest)
    list(POP_FRONT rest function folder pattern)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS
      RELATIVE "${PROJECT_SOURCE_DIR}/${folder}" "${PROJECT_SOURCE_DIR}/${folder}/${pattern}")
    foreach(other IN LISTS ARGN)
      # Folders, and words that are no part of any.
      string(REGEX REPLACE "^${folder}/" "" below "${other}")
      if(NOT below STREQUAL other)
        list(FILTER files EXCLUDE REGEX "^${below}/")
      endif()
    endforeach()
    list(SORT files)
    string(APPEND specification "embed_files(${function} \"${PROJECT_SOURCE_DIR}/${folder}\" ${files})\n")
    list(TRANSFORM files PREPEND "${PROJECT_SOURCE_DIR}/${folder}/")
    list(APPEND all_files ${files})
  endwhile()

  set(list_file "${PROJECT_BINARY_DIR}/generated/${name}.cmake")
  set(output "${PROJECT_BINARY_DIR}/generated/${name}.cpp")
  # Rewritten only when the list changes, so that a file that goes away makes the texts be built again.
  file(CONFIGURE OUTPUT "${list_file}" CONTENT "${specification}" @ONLY)
  add_custom_command(OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DLIST=${list_file}" "-DOUTPUT=${output}" -P "${script}"
    DEPENDS "${script}" "${list_file}" ${all_files}
    COMMENT "Embedding device headers, schedules and examples" VERBATIM)
  add_library(${name} STATIC "${output}")
  add_library(astatide::${name} ALIAS ${name})
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:astatide_options>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_include_directories(${name} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/astatide>")
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  set_property(GLOBAL APPEND PROPERTY ASTATIDE_LIBRARIES ${name})
endfunction()
