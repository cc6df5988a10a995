// The include path and the names of Catch2 2 for a machine that has Catch2 3.
#pragma once

#include <catch2/catch_all.hpp>

using Catch::Approx;
