// Updates of inputs on GPUs that are simulated thread by thread: what kernels read of an input is what those before
// them have stored.

#include <catch2/catch.hpp>

#include "api/check_outputs.h"
#include "tests/support/paged_case.h"

using namespace astatide;
using namespace astatide::testing;

TEST_CASE("appended keys and values are seen by the kernels behind, simulated") {
  for (const char* schedule : {"simt/decode", "sm80/decode", "sm90/decode_gqa"}) {
    INFO(schedule);
    Case c;
    c.algorithm = load_algorithm("append_decode");
    c.dtype = ScalarType::bf16;
    c.extents = {{"B", 3}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 2}, {"Sk", 80}, {"D", 16}, {"Dv", 16}};
    c.inputs["Q"] = gaussian(c.dtype, {3, 2, 2, 16}, 1);
    c.inputs["Kn"] = gaussian(c.dtype, {3, 1, 2, 16}, 4);
    c.inputs["Vn"] = gaussian(c.dtype, {3, 1, 2, 16}, 5);
    fill_pages(c, {0, 1, 65}, 64, 2);
    const HostTensors outputs = run_case(c, schedule, Device::sim());
    CHECK(outputs.size() == 4);
    for (const OutputCheck& check : check_outputs(c.algorithm, c.extents, {}, c.inputs, outputs)) {
      INFO(check.name << " error " << check.max_abs_error << " of at most " << check.limit << ", " << check.changed
                      << " changed");
      CHECK(check.ok());
    }
  }
}
