# Run with -DLIBRARY=… -DNM=…: the shared library exports the C interface and what the public C++ headers declare, and nothing else.
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND "${NM}" -D --defined-only --format=just-symbols "${LIBRARY}" OUTPUT_VARIABLE text
  COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" symbols "${text}")
foreach(wanted IN ITEMS astatide_executable_launch astatide_version _ZN8astatide6EngineC1ENS_13EngineOptionsE
    _ZTIN8astatide9UserErrorE)
  if(NOT wanted IN_LIST symbols)
    message(FATAL_ERROR "${wanted} is not exported")
  endif()
endforeach()

# Functions, tables and type information of the namespace astatide, the latter of types of functions, too.
set(others ${symbols})
list(FILTER others EXCLUDE REGEX "^(astatide_|_Z(T[ISV])?P?F?N?K?8astatide)")
# Namespaces in it that no public header speaks of; what a program takes beside the library is not exported either.
set(private ${symbols})
list(FILTER private INCLUDE REGEX "^_Z[A-Z]*8astatide(7runtime|4cuda|3cpu|11check_reads|13check_outputs)")
if(others OR private)
  list(JOIN others "\n" others)
  list(JOIN private "\n" private)
  message(FATAL_ERROR "exported, and not public:\n${others}\n${private}")
endif()
