#include <fmt/format.h>

#include <algorithm>

#include "api/c_calls.h"
#include "api/c_dlpack.h"
#include "api/c_handles.h"
#include "compiler/support/contains.h"

using namespace astatide;

namespace {

using Views = std::map<std::string, TensorView>;

Views views_for(const AstatideExecutable& executable, std::span<const AstatideTensor> tensors, Diagnostics& errors,
                bool written = true) {
  const Algorithm& algorithm = executable.value.algorithm();
  const auto how = [&](const std::string& name) -> const char* {
    if (!written) return nullptr;
    if (contains(algorithm.outputs, name)) return "an output";
    return algorithm.updates_input(name) ? "updated" : nullptr;
  };
  return views_of(tensors, executable.device, how, errors);
}

/// Everything but the tensors.
void add_options(const AstatideLaunch& launch, LaunchArguments& arguments) {
  arguments.scalars = scalars_of(launch.scalars, launch.scalar_count);
  arguments.extents = sizes_of(launch.extents, launch.extent_count, "extents");
  arguments.stream = launch.stream;
  arguments.workspace = launch.workspace;
  arguments.workspace_bytes = launch.workspace_bytes;
  arguments.check_indices = launch.check_indices != 0;
  if (launch.workspace == nullptr && launch.workspace_bytes != 0)
    throw UserError(fmt::format("workspace is NULL, and has {} bytes", launch.workspace_bytes),
                    {"0 bytes where the library is to keep its own"});
}

}  // namespace

AstatideStatus astatide_executable_shape(const AstatideExecutable* executable, const char* tensor,
                                         const AstatideSize* extents, size_t extent_count, AstatideShape* shape,
                                         AstatideError** error) {
  return guarded(error, [&] {
    AstatideShape& out = needed_struct(shape, "shape");
    const TensorView view = describe_tensor(needed(executable, "executable").value, needed_text(tensor, "tensor"),
                                            sizes_of(extents, extent_count, "extents"));
    if (view.shape.size() > ASTATIDE_MOST_DIMENSIONS)
      throw UserError(fmt::format("{} has {} dimensions, a tensor has 0 to {}", tensor, view.shape.size(),
                                  ASTATIDE_MOST_DIMENSIONS));
    out = {sizeof out, dl_type_of(view.dtype), static_cast<std::int32_t>(view.shape.size()), {}};
    std::copy(view.shape.begin(), view.shape.end(), out.shape);
  });
}

AstatideStatus astatide_executable_workspace_bytes(const AstatideExecutable* executable, const AstatideSize* extents,
                                                   size_t extent_count, int64_t* bytes, AstatideError** error) {
  return guarded(error, [&] {
    needed(bytes, "bytes") =
        needed(executable, "executable").value.workspace_bytes(sizes_of(extents, extent_count, "extents"));
  });
}

AstatideStatus astatide_executable_launch(const AstatideExecutable* executable, const AstatideLaunch* launch,
                                          AstatideError** error) {
  return guarded(error, [&] {
    const AstatideExecutable& own = needed(executable, "executable");
    const AstatideLaunch& given = needed_struct(launch, "launch");
    Diagnostics errors;
    LaunchArguments arguments;
    arguments.tensors = views_for(own, elements(given.tensors, given.tensor_count, "tensors"), errors);
    errors.throw_if_any();
    add_options(given, arguments);
    own.value.launch(arguments);
  });
}

AstatideStatus astatide_executable_launch_merge(const AstatideExecutable* merge, const AstatidePart* parts,
                                                size_t part_count, const AstatideLaunch* launch,
                                                AstatideError** error) {
  return guarded(error, [&] {
    const AstatideExecutable& own = needed(merge, "merge");
    const AstatideLaunch& given = needed_struct(launch, "launch");
    Diagnostics errors;
    std::vector<Views> views;
    for (const AstatidePart& part : elements(parts, part_count, "parts"))
      views.push_back(views_for(own, elements(part.tensors, part.tensor_count, "tensors"), errors, false));
    const Views whole = views_for(own, elements(given.tensors, given.tensor_count, "tensors"), errors);
    errors.throw_if_any();
    LaunchArguments arguments = merge_arguments(own.value, views, whole);
    add_options(given, arguments);
    own.value.launch(arguments);
  });
}
