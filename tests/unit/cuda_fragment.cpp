#include "compiler/cuda/fragment.h"

#include <catch2/catch.hpp>
#include <map>

#include "compiler/algorithm/algorithm.h"

using namespace astatide;
using namespace astatide::cuda;

namespace {

/// The meaning of the emitted offset, computed apart from its text.
int offset_of(const FragmentAxis& axis, int index, int thread) {
  return thread * axis.vector + index % axis.vector + index / axis.vector * axis.vector * axis.threads;
}

/// The value of an emitted offset: a sum of products of `t`, `n` and numbers with % and /.
int value_of_text(const FragmentAxis& axis, int index, int thread) {
  Expr e = parse_expr(axis.offset("n", "t"), {}, true);
  return static_cast<int>(evaluate_integer(e, {{"n", index}, {"t", thread}}));
}

}  // namespace

TEST_CASE("every element of a fragment is held by exactly one thread") {
  for (const int extent : {1, 7, 16, 40, 64, 72, 128})
    for (const int threads : {1, 8, 16, 32})
      for (const int vector : {1, 4}) {
        const FragmentAxis axis{extent, threads, vector};
        std::map<int, int> holders;
        for (int thread = 0; thread < threads; ++thread)
          for (int index = 0; index < axis.count(); ++index) ++holders[offset_of(axis, index, thread)];
        INFO("extent " << extent << ", " << threads << " threads, vectors of " << vector);
        for (int element = 0; element < extent; ++element) CHECK(holders[element] == 1);
        CHECK(axis.exact() == (holders.rbegin()->first == extent - 1));
      }
}

TEST_CASE("the text of an offset means the fragment's offset") {
  for (const int threads : {1, 8, 16})
    for (const int vector : {1, 4})
      for (const int extent : {8, 64, 72}) {
        const FragmentAxis axis{extent, threads, vector};
        for (int thread = 0; thread < threads; ++thread)
          for (int index = 0; index < axis.count(); ++index) {
            INFO(axis.offset("n", "t") << " at n " << index << ", t " << thread);
            CHECK(value_of_text(axis, index, thread) == offset_of(axis, index, thread));
          }
      }
}
