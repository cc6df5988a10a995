# Finds what Astatide links, and defines
#   ASTATIDE_FMT, ASTATIDE_YAML_CPP   targets to link
#   astatide_llvm                     LLVM 19 with its include directories (with ASTATIDE_CPU)
#   astatide_options                  language level, warnings and sanitizers

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(ASTATIDE_CCACHE ccache)
  if(ASTATIDE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${ASTATIDE_CCACHE}")
  endif()
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

find_package(yaml-cpp REQUIRED)
# The target got its namespace in yaml-cpp 0.8.
if(TARGET yaml-cpp::yaml-cpp)
  set(ASTATIDE_YAML_CPP yaml-cpp::yaml-cpp)
else()
  set(ASTATIDE_YAML_CPP yaml-cpp)
endif()
# What a shared library links: Debian's archive of yaml-cpp is not position-independent.
set(ASTATIDE_SHARED_YAML_CPP ${ASTATIDE_YAML_CPP})
if(ASTATIDE_STATIC_DEPS)
  # Debian ships no libfmt.a.
  set(ASTATIDE_FMT fmt::fmt-header-only)
  # Debian's yaml-cpp package names only the shared library in its CMake files, though the archive is there too.
  find_library(ASTATIDE_YAML_CPP_ARCHIVE libyaml-cpp.a REQUIRED)
  add_library(astatide_yaml_cpp STATIC IMPORTED)
  set_target_properties(astatide_yaml_cpp PROPERTIES IMPORTED_LOCATION "${ASTATIDE_YAML_CPP_ARCHIVE}")
  # Who uses an installed library finds yaml-cpp anew.
  set(ASTATIDE_YAML_CPP "$<BUILD_INTERFACE:astatide_yaml_cpp>$<INSTALL_INTERFACE:yaml-cpp>")
else()
  set(ASTATIDE_FMT fmt::fmt)
endif()

if(ASTATIDE_CPU)
  # The hint comes first: machines often carry an older LLVM in the default path.
  find_package(LLVM 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19)
  if(NOT LLVM_VERSION_MAJOR EQUAL 19)
    message(FATAL_ERROR "LLVM 19 is needed, found ${LLVM_VERSION} in ${LLVM_DIR}")
  endif()
  # The shared library holds every backend: it takes longer to load than a kernel from the cache takes to be read.
  if(TARGET LLVM AND NOT ASTATIDE_STATIC_LLVM)
    set(llvm_libraries LLVM)
  else()
    llvm_map_components_to_libnames(llvm_libraries core support orcjit native passes irreader bitreader bitwriter)
  endif()
  add_library(astatide_llvm INTERFACE)
  target_include_directories(astatide_llvm SYSTEM INTERFACE "$<BUILD_INTERFACE:${LLVM_INCLUDE_DIRS}>")
  target_link_libraries(astatide_llvm INTERFACE ${llvm_libraries})
endif()

add_library(astatide_options INTERFACE)
target_compile_features(astatide_options INTERFACE cxx_std_20)
target_compile_options(astatide_options INTERFACE -Wall -Wextra -Wpedantic $<$<BOOL:${ASTATIDE_WERROR}>:-Werror>)
# g++ 12 takes sums of short strings for copies that overlap (GCC bug 105651).
target_compile_options(astatide_options INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
if(ASTATIDE_SANITIZE)
  target_compile_options(astatide_options INTERFACE
    -fsanitize=${ASTATIDE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(ASTATIDE_SANITIZE_EXCEPT)
    target_compile_options(astatide_options INTERFACE -fno-sanitize=${ASTATIDE_SANITIZE_EXCEPT})
  endif()
  target_link_options(astatide_options INTERFACE -fsanitize=${ASTATIDE_SANITIZE})
  # With sanitizers g++ 12 warns of uninitialized values inside the standard library that are none. Its other warnings that
  # follow values through inlined code have the same fault there: they are shown, and stop nothing.
  target_compile_options(astatide_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  if(ASTATIDE_WERROR AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    foreach(warning IN ITEMS restrict stringop-overflow stringop-overread array-bounds nonnull free-nonheap-object dangling-pointer
        mismatched-new-delete)
      target_compile_options(astatide_options INTERFACE -Wno-error=${warning})
    endforeach()
  endif()
endif()
