#pragma once

namespace astatide {

// Of ASCII alone and independent of the locale, unlike <cctype>.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// A letter or underscore: what a name may begin with.
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace astatide
