# astatide_fuzz_tests(DIRECTORY folder SOURCES files…)
#
# Each .cpp file of the folder is a libFuzzer target with the corpus folder/corpus/<name>/, and a ctest entry of the label
# `fuzz` that runs it for ASTATIDE_FUZZ_SECONDS. libFuzzer comes with clang only, while the build uses any compiler: so
# the readers' sources are compiled once more here, by clang with coverage and sanitizers.
set(ASTATIDE_FUZZ_SECONDS 30 CACHE STRING "How long ctest runs each fuzz target")

# astatide_unity_sources(OUT folder sources…): writes files that include up to CMAKE_UNITY_BUILD_BATCH_SIZE sources of one
# folder each.
function(astatide_unity_sources out folder)
  set(batch 8)
  if(CMAKE_UNITY_BUILD_BATCH_SIZE)
    set(batch ${CMAKE_UNITY_BUILD_BATCH_SIZE})
  endif()
  set(files "")
  set(of "")
  foreach(source IN LISTS ARGN)
    cmake_path(GET source PARENT_PATH parent)
    if(NOT parent STREQUAL of OR count EQUAL batch)
      set(of "${parent}")
      set(count 0)
      cmake_path(GET parent STEM name)
      list(LENGTH files number)
      set(file "${folder}/${number}_${name}.cpp")
      list(APPEND files "${file}")
      set(text_${number} "")
    endif()
    string(APPEND text_${number} "#include \"${source}\"\n")
    math(EXPR count "${count} + 1")
  endforeach()
  set(number 0)
  foreach(file IN LISTS files)
    # Written only where it changes.
    file(CONFIGURE OUTPUT "${file}" CONTENT "${text_${number}}" @ONLY)
    math(EXPR number "${number} + 1")
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

function(astatide_fuzz_tests)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "DIRECTORY" "SOURCES")
  file(GLOB targets CONFIGURE_DEPENDS "${arg_DIRECTORY}/*.cpp")
  if(NOT targets)
    return()
  endif()
  find_program(ASTATIDE_FUZZ_CLANG NAMES clang++-14 clang++ clang++-19 clang++-18)
  find_program(ASTATIDE_FUZZ_AR NAMES ar)
  if(NOT ASTATIDE_FUZZ_CLANG)
    message(STATUS "No clang++: the fuzz targets are not built")
    return()
  endif()

  # Without optimization, which costs more time here than half a minute of faster runs gives back.
  set(sanitizers address,undefined)
  set(flags -std=c++20 -O0 -g1 -fsanitize=fuzzer-no-link,${sanitizers} -fno-sanitize-recover=all
    -fno-omit-frame-pointer "-I${PROJECT_SOURCE_DIR}" "-I${PROJECT_BINARY_DIR}/include")
  if(ASTATIDE_SANITIZE_EXCEPT)
    list(APPEND flags -fno-sanitize=${ASTATIDE_SANITIZE_EXCEPT})
  endif()
  # In unity builds the readers' sources are compiled several at once too, those of one folder together.
  set(units "")
  if(CMAKE_UNITY_BUILD)
    astatide_unity_sources(units "${PROJECT_BINARY_DIR}/fuzz/unity" ${arg_SOURCES})
  else()
    set(units ${arg_SOURCES})
  endif()
  set(objects "")
  foreach(source IN LISTS units targets)
    cmake_path(IS_PREFIX PROJECT_BINARY_DIR "${source}" is_unity)
    if(is_unity)
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz" OUTPUT_VARIABLE relative)
    else()
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE relative)
    endif()
    string(REPLACE "../" "" relative "${relative}")
    set(object "${PROJECT_BINARY_DIR}/fuzz/${relative}.o")
    cmake_path(GET object PARENT_PATH object_dir)
    file(MAKE_DIRECTORY "${object_dir}")
    add_custom_command(OUTPUT "${object}"
      COMMAND ${ASTATIDE_CCACHE} "${ASTATIDE_FUZZ_CLANG}" ${flags} -MD -MF "${object}.d" -c "${source}" -o "${object}"
      DEPENDS "${source}" DEPFILE "${object}.d" COMMENT "Compiling ${relative} for fuzzing" VERBATIM)
    if(NOT source IN_LIST targets)
      list(APPEND objects "${object}")
    endif()
  endforeach()

  # An archive, so that a target links only what it reads with.
  set(archive "${PROJECT_BINARY_DIR}/fuzz/libastatide_fuzzed.a")
  add_custom_command(OUTPUT "${archive}"
    COMMAND "${CMAKE_COMMAND}" -E rm -f "${archive}"
    COMMAND "${ASTATIDE_FUZZ_AR}" rcs "${archive}" ${objects}
    DEPENDS ${objects} COMMENT "Archiving the readers for fuzzing" VERBATIM)

  set(programs "")
  foreach(source IN LISTS targets)
    cmake_path(GET source STEM name)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE relative)
    set(object "${PROJECT_BINARY_DIR}/fuzz/${relative}.o")
    set(program "${PROJECT_BINARY_DIR}/bin/fuzz_${name}")
    add_custom_command(OUTPUT "${program}"
      COMMAND "${ASTATIDE_FUZZ_CLANG}" -fsanitize=fuzzer,${sanitizers} "${object}" "${archive}"
        -lyaml-cpp -lfmt -ldl -lpthread -o "${program}"
      DEPENDS "${object}" "${archive}" COMMENT "Linking fuzz_${name}" VERBATIM)
    list(APPEND programs "${program}")

    set(found "${PROJECT_BINARY_DIR}/fuzz/found/${name}")
    file(MAKE_DIRECTORY "${found}" "${PROJECT_BINARY_DIR}/bin")
    # libFuzzer adds what it finds to the first folder and only reads the second.
    set(corpus "${arg_DIRECTORY}/corpus/${name}")
    if(NOT IS_DIRECTORY "${corpus}")
      message(FATAL_ERROR "The fuzz target ${relative} has no corpus in ${corpus}")
    endif()
    add_test(NAME fuzz.${name} COMMAND "${program}"
      -max_total_time=${ASTATIDE_FUZZ_SECONDS} -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 -verbosity=0
      -artifact_prefix=${found}/ "${found}" "${corpus}")
    math(EXPR limit "${ASTATIDE_FUZZ_SECONDS} + 120")
    # The costliest start first, so that they run beside the rest.
    set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT ${limit} COST 1000)
  endforeach()
  add_custom_target(astatide_fuzz_programs ALL DEPENDS ${programs})
endfunction()
