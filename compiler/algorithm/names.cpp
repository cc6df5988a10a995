#include "compiler/algorithm/names.h"

#include <algorithm>
#include <string_view>

#include "compiler/support/characters.h"
#include "compiler/support/contains.h"

namespace astatide {
namespace {

// Each word between spaces.
constexpr std::string_view kWordsOfTheLanguage = " where and or not inf nan infinity ";

constexpr std::string_view kFunctions =
    " sum max min softmax logsumexp exp exp2 log log2 tanh sigmoid sqrt abs pow select safe absorb div floor_div mod ";

// Keywords of C++20 and CUDA, and types and macros that emitted source may meet.
constexpr std::string_view kTaken =
    " NULL alignas alignof and_eq asm assert auto bf16 bitand bitor blockDim blockIdx bool break case catch char "
    "char16_t "
    "char32_t char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit "
    "continue decltype default delete do double dynamic_cast else enum explicit export extern f16 f32 f64 false float "
    "for "
    "friend goto gridDim half i32 i64 if inline int long main mutable namespace new noexcept not_eq null nullptr "
    "operator "
    "or_eq printf private protected public register reinterpret_cast requires restrict return short signed sizeof "
    "static "
    "static_assert static_cast struct switch template this thread_local threadIdx throw true try typedef typeid "
    "typename "
    "u8 union unsigned using virtual void volatile warpSize wchar_t while xor xor_eq "
    // Functions, types and constants of the device headers and of CUDA that emitted kernels call by name.
    "address_in aligned anew arrives_last barrier_acquire barrier_arrive barrier_arrive_at barrier_expect barrier_init "
    "barrier_init_fence barrier_release_at barrier_wait block_number clamp_number cluster_sync component copy16 "
    "count_below cp_async16 cp_async_commit cp_async_wait draw_tile Eight exp2_by exp_by fabsf fast_exp fast_exp2 "
    "fast_log fast_log2 fast_tanh "
    "fence_async_proxy fence_of_device float4 floor_mod fmaf fmaxf fminf from_float give_registers Half4Bits high4 "
    "in_panels kInfinity kLog2e lanes_max lanes_min lanes_sum ldmatrix4 ldmatrix4_transposed leave_tiles "
    "let_next_start load1 load4 "
    "load8 load_shared4 log2f logf low4 make_float2 make_float4 matrix_descriptor mma_16x8x16 mma_16x8x8 multiple "
    "narrow4 pack2 pass_turn pin polynomial_exp2 powf quad_transpose reciprocal repeat8 shared_address sqrtf "
    "stmatrix4 store16 store2 store4 store_at take_registers take_turn tanhf team_sync TensorMap tma_load "
    "tma_multicast "
    "tma_prefetch tma_store tma_store_commit tma_wait_until_read to_float to_tf32 uint4 uniform wait_for_earlier "
    "warpgroup_sync "
    "wgmma_commit wgmma_fence wgmma_wait widen4 ";

bool contains(std::string_view words, const std::string& name) {
  return words.find(" " + name + " ") != std::string_view::npos;
}

bool is_integer_operation(Op op, bool real_division) {
  switch (op) {
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::floor_div:
    case Op::mod:
    case Op::min:
    case Op::max:
    case Op::neg:
    case Op::abs:
      return true;
    case Op::div:
      return real_division;
    default:
      return false;
  }
}

}  // namespace

NameKinds name_kinds(const Algorithm& algorithm) {
  NameKinds names;
  for (const Extent& extent : algorithm.extents) names.values.insert(extent.name);
  for (const Scalar& scalar : algorithm.scalars) {
    names.values.insert(scalar.name);
    names.reals.insert(scalar.name);
  }
  for (const Input& input : algorithm.inputs)
    if (input.dtype && !is_floating(*input.dtype)) names.integer_tensors.insert(input.name);
  return names;
}

Location place_in(Location whole, const Expr& part) {
  if (part.line() == 0) return whole;
  if (part.line() != whole.line) whole.text.clear();
  whole.line = part.line();
  whole.column = part.column();
  return whole;
}

void add_axes_of(const Expr& place, const NameKinds& names, std::vector<std::string>& axes) {
  visit(place, [&](const Expr& e) {
    const auto* v = e.as<Variable>();
    if (v && !names.values.contains(v->name) && !astatide::contains(axes, v->name)) axes.push_back(v->name);
  });
}

bool is_built_from_integers(const Expr& e, const NameKinds& names, bool real_division) {
  const auto integers = [&](const Expr& x) { return is_built_from_integers(x, names, real_division); };
  if (e.as<Integer>()) return true;
  if (const auto* v = e.as<Variable>()) return !names.reals.contains(v->name);
  if (const auto* r = e.as<Read>()) return names.integer_tensors.contains(r->tensor);
  const auto* c = e.as<Call>();
  if (!c) return false;
  if (c->op == Op::select) return integers(c->args[1]) && integers(c->args[2]);
  return is_integer_operation(c->op, real_division) && std::all_of(c->args.begin(), c->args.end(), integers);
}

std::string problem_with_name(const std::string& name) {
  if (name.empty()) return "is empty; a name is a letter or _ followed by letters, digits and _";
  if (name.size() > kLongestName)
    return "has " + std::to_string(name.size()) + " characters, a name has at most " + std::to_string(kLongestName);
  const bool identifier =
      is_letter(name[0]) && std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
  if (!identifier) return "is not a name: a letter or _ followed by letters, digits and _";
  if (contains(kWordsOfTheLanguage, name)) return "is a word of the language";
  if (contains(kFunctions, name)) return "is a function of the language";
  if (name.find("__") != std::string::npos) return "holds two underscores, which C++ reserves";
  if (name[0] == '_' && name.size() > 1 && name[1] >= 'A' && name[1] <= 'Z')
    return "starts with _ and a capital, which C++ reserves";
  if (contains(kTaken, name)) return "is a word of C++ or CUDA";
  return {};
}

std::string quoted(const std::string& word) {
  constexpr std::size_t kShown = 40;
  std::string out;
  for (char c : word.substr(0, kShown)) out += c >= 32 && c < 127 ? c : '?';
  return word.size() > kShown ? out + ".." : out;
}

}  // namespace astatide
