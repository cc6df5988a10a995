#pragma once

#include <catch2/catch.hpp>

#include "runtime/driver.h"
#include "runtime/shared_library.h"

namespace astatide::testing {

/// A function of the driver that the runtime itself does not need.
template <class Function>
void load_driver_symbol(const char* name, Function& function) {
  std::string reason;
  const auto library = runtime::SharedLibrary::open(runtime::driver().library_path(), reason);
  REQUIRE(library);
  function = reinterpret_cast<Function>(library->symbol(name));
  REQUIRE(function != nullptr);
}

}  // namespace astatide::testing
