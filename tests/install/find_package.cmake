# Run with -DBINARY_DIR=… -DSOURCE_DIR=… -DVERSION=… -DCXX_FLAGS=… and the compilers: installs a build tree into a folder of its
# own, builds a project against it and runs its programs.
cmake_minimum_required(VERSION 3.25)

set(folder "${BINARY_DIR}/install_test")
set(prefix "${folder}/prefix")
file(REMOVE_RECURSE "${folder}")

function(run out)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nexits with ${code}:\n${text}")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

function(expect text pattern)
  if(NOT text MATCHES "${pattern}")
    message(FATAL_ERROR "'${pattern}' is not in:\n${text}")
  endif()
endfunction()

run(ignored "${CMAKE_COMMAND}" --install "${BINARY_DIR}" --prefix "${prefix}")
run(version "${prefix}/bin/astatide" --version)
string(STRIP "${version}" version)
if(NOT version STREQUAL "astatide ${VERSION}")
  message(FATAL_ERROR "astatide --version says '${version}', CMakeLists.txt says ${VERSION}")
endif()

# Nothing but the public headers is there.
file(GLOB_RECURSE headers RELATIVE "${prefix}/include" "${prefix}/include/*")
foreach(private IN ITEMS astatide/runtime/driver.h astatide/api/executable_state.h)
  if(private IN_LIST headers)
    message(FATAL_ERROR "the private header ${private} is installed")
  endif()
endforeach()

run(ignored "${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${SOURCE_DIR}/tests/install" -B "${folder}/build"
  "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
  "-DCMAKE_C_FLAGS=${CXX_FLAGS}" "-DCMAKE_C_COMPILER=${C_COMPILER}"
  "-DWANTED_VERSION=${VERSION}" "-DEXAMPLE=${SOURCE_DIR}/examples/cross_attention.cpp" -DCMAKE_BUILD_TYPE=Debug)
run(ignored "${CMAKE_COMMAND}" --build "${folder}/build")
if(WITH_CPU)
  run(text "${folder}/build/example")
  expect("${text}" "every row of O is")
endif()

# It starts where there is neither driver nor NVRTC, loads neither, and says which is missing.
set(nowhere "${folder}/nowhere")
foreach(program IN ITEMS bare_machine bare_machine_c)
  run(text "${CMAKE_COMMAND}" -E env "ASTATIDE_LIBCUDA=${nowhere}" "ASTATIDE_NVRTC=${nowhere}"
    "${folder}/build/${program}")
  expect("${text}" "version ${VERSION}")
  expect("${text}" "missing: .*no CUDA driver.*nowhere")
  find_program(readelf readelf)
  if(readelf)
    run(text "${readelf}" -d "${folder}/build/${program}")
    if(text MATCHES "NEEDED[^\n]*(libcuda|libnvrtc)")
      message(FATAL_ERROR "the program can't start without CUDA:\n${text}")
    endif()
  endif()
endforeach()

file(REMOVE_RECURSE "${folder}")
