#pragma once

#include <utility>
#include <variant>

namespace astatide {

template <class... Fs>
struct Overload : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overload(Fs...) -> Overload<Fs...>;

/// Visits a variant with one lambda an alternative. Exhaustive: a missing alternative is a compile error.
template <class Variant, class... Fs>
decltype(auto) match(Variant&& value, Fs&&... cases) {
  return std::visit(Overload{std::forward<Fs>(cases)...}, std::forward<Variant>(value));
}

}  // namespace astatide
