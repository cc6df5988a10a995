#include <fmt/format.h>

#include "compiler/cuda/kernel_emitter.h"

namespace astatide::cuda {

void SourceText::line(const std::string& text) {
  if (!text.empty()) text_.append(static_cast<std::size_t>(indent) * 2, ' ');
  text_ += text;
  text_ += '\n';
}

void SourceText::open_unrolled(const std::string& var, int begin, int end) {
  line("#pragma unroll");
  open(fmt::format("for (int {0} = {1}; {0} < {2}; ++{0})", var, begin, end));
}

void SourceText::open(const std::string& head) {
  line(head.empty() ? "{" : head + " {");
  ++indent;
}

void SourceText::close() {
  --indent;
  line("}");
}

}  // namespace astatide::cuda
