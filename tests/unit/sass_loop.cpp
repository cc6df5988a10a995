#include "tests/support/sass_loop.h"

#include <catch2/catch.hpp>

using namespace astatide::testing;

namespace {

// A loop over output tiles around one over keys. In the latter a wait that seldom turns, and a part that is skipped
// unless something is to be computed again.
const std::string kNested = R"(
kernel:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], !UPT ;
        /*0020*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24 ;
        /*0030*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24 ;
        /*0040*/              @!P1 BRA `(.L_x_5) ;
.L_x_1:
        /*0050*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R5 ;
        /*0060*/               @P0 BRA `(.L_x_3) ;
.L_x_2:
        /*0070*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R5 ;
        /*0080*/              @!P0 BRA `(.L_x_2) ;
.L_x_3:
        /*0090*/                   HGMMA.64x128x16.F32.BF16 R88, R24, gdesc[UR8], R88 ;
        /*00a0*/                   HGMMA.64x128x16.F32.BF16 R88, R28, gdesc[UR8], R88 ;
        /*00b0*/                   MUFU.EX2 R3, R3 ;
        /*00c0*/                   FFMA.FTZ R4, R5, R6, R7 ;
        /*00d0*/                   FMUL R4, R5, R6 ;
        /*00e0*/              @!P2 BRA `(.L_x_4) ;
        /*00f0*/                   LDSM.16.M88.4 R8, [R9] ;
.L_x_6:
        /*0100*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0110*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0120*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0130*/               @P4 BRA `(.L_x_6) ;
.L_x_4:
        /*0140*/               @P3 BRA `(.L_x_1) ;
.L_x_5:
        /*0150*/               @P5 BRA `(.L_x_0) ;
        /*0160*/                   EXIT ;
.L_x_7:
        /*0170*/                   BRA `(.L_x_7);
)";

}  // namespace

TEST_CASE("the hottest loop is the innermost with tensor cores, without what a branch may skip") {
  const auto counts = hottest_loop(kNested);
  REQUIRE(counts);
  CHECK(count_of(*counts, "mma") == 2);
  CHECK(count_of(*counts, "mufu") == 1);
  CHECK(count_of(*counts, "ffma fmul fadd") == 2);
  CHECK(count_of(*counts, "ldsm") == 0);
  CHECK(count_of(*counts, "bar syncs") == 1);
  CHECK(count_of(*counts, "others") == 3);  // branches
  CHECK(count_of(*counts, "total") == 9);
  CHECK(parse_counts(to_text(*counts)) == *counts);
}

TEST_CASE("of two loops with as many products the shorter one is the hottest") {
  const std::string masked = R"(
.L_x_0:
        /*0000*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0010*/                   FSEL R4, R4, -INF, P1 ;
        /*0020*/               @P0 BRA `(.L_x_0) ;
.L_x_1:
        /*0030*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0040*/               @P0 BRA `(.L_x_1) ;
        /*0050*/                   EXIT ;
)";
  const auto counts = hottest_loop(masked);
  REQUIRE(counts);
  CHECK(count_of(*counts, "total") == 2);
}

TEST_CASE("cuobjdump's addresses are places too, and a loop without products is none") {
  const std::string loop = R"(
        /*0000*/                   MOV R1, c[0x0][0x28] ;       /* 0x00000a0000017a02 */
                                                                /* 0x000fc40000000f00 */
        /*0010*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0020*/               @P0 BRA 0x10 ;
        /*0030*/                   EXIT ;
)";
  const auto counts = hottest_loop(loop);
  REQUIRE(counts);
  CHECK(count_of(*counts, "total") == 2);
  CHECK_FALSE(hottest_loop("/*0000*/ HMMA.16816.F32 R4, R8, R12, R4 ;\n/*0010*/ EXIT ;"));
  CHECK_FALSE(hottest_loop("/*0000*/ MOV R1, R2 ;\n/*0010*/ @P0 BRA 0x0 ;\n/*0020*/ EXIT ;"));
}
