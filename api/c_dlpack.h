#pragma once

#include <map>
#include <span>
#include <string>

#include "api/astatide.h"
#include "api/astatide_c.h"

// Values of the C interface as those of the C++ API, and back.

namespace astatide {

Device device_of(const DLDevice& device);

/// The type that a DLPack type is; `of` names what has it. Throws UserError where no tensor has it.
ScalarType dtype_of(const DLDataType& dtype, const std::string& of);
DLDataType dl_type_of(ScalarType type);

/// Refuses names that are NULL or there twice. `what` is the argument's name.
std::map<std::string, std::int64_t> sizes_of(const AstatideSize* sizes, std::size_t count, const char* what);
std::map<std::string, double> scalars_of(const AstatideScalar* scalars, std::size_t count);

/// Tensors on `device` by name. Adds to `errors` what DLPack may say and a launch can't take: another device, types
/// that no tensor has, no shape, read-only memory of what is `written`: "an output", "updated"
/// or null, by the name.
std::map<std::string, TensorView> views_of(std::span<const AstatideTensor> tensors, const Device& device,
                                           const std::function<const char*(const std::string&)>& written,
                                           Diagnostics& errors);

}  // namespace astatide
