# Run by astatide_embed with -DLIST=… -DOUTPUT=…: writes the .cpp file with the texts.

set(code "// Generated from the files that it holds.\n#include \"compiler/support/embedded.h\"\n\n#include <array>\n\n")
string(APPEND code "namespace astatide {\n")

function(embed_files function folder)
  list(LENGTH ARGN count)
  string(APPEND code "\nstd::span<const EmbeddedFile> ${function}() {\n")
  string(APPEND code "  static constexpr std::array<EmbeddedFile, ${count}> kFiles{{\n")
  foreach(file IN LISTS ARGN)
    file(READ "${folder}/${file}" text)
    string(APPEND code "      {\"${file}\", R\"astatide_text(${text})astatide_text\"},\n")
  endforeach()
  string(APPEND code "  }};\n  return kFiles;\n}\n")
  set(code "${code}" PARENT_SCOPE)
endfunction()

include("${LIST}")
string(APPEND code "\n}  // namespace astatide\n")
file(WRITE "${OUTPUT}" "${code}")
